import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { driverName, droppingAnnotation, onDrain, tombstone } from '../../src/api/names.ts';
import { volumeMoves } from '../../src/api/volume-move.ts';
import { systemClock } from '../../src/base/clock.ts';
import { runCaptured } from '../../src/base/testing/run-captured.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import { Workers } from '../../src/base/work.ts';
import { watchedClaim } from '../../src/controller/claims/volume-claims.ts';
import { isDraining, podOnNode, scheduled, volumeOnDrain } from '../../src/controller/drain/drained-objects.ts';
import { droppedVolumes, evictedPods } from '../../src/controller/drain/dropped-volumes.ts';
import { EvictionWebhook } from '../../src/controller/drain/eviction-webhook.ts';
import type { KubeClient } from '../../src/kube/client.ts';
import { Informer } from '../../src/kube/informer.ts';
import {
  leases,
  nodes,
  persistentVolumeClaims,
  persistentVolumes,
  pods,
  statefulSets,
  storageClasses,
} from '../../src/kube/resource.ts';
import { ProblemsFound } from '../../src/plugin/problems-found.ts';
import { kubectlMoorage } from '../../src/plugin/program.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { execute } from '../../worlds/host/processes.ts';
import { newNamespace, startApiServer } from './api-server.ts';
import { startEvictionWebhook } from './eviction-webhook.ts';
import { createSet, mortal, podSpec } from './machines.ts';
import { leadWith } from './removed-nodes.ts';
import { room, simulatedNodes } from './simulated-nodes.ts';

const api = await startApiServer();
const { admin, cluster } = api;
const controller = await startEvictionWebhook(api);
await admin.create(storageClasses, {
  metadata: { name: 'local' },
  provisioner: driverName,
  volumeBindingMode: 'WaitForFirstConsumer',
});
const common = { client: admin, clock: systemClock, log: silentLog };
/** A pod with it stays in the API, terminating, until the test lets it go. */
const holding = 'test.moorage.dev/hold';

const [order] = tombstone.annotations;

const podOf = (namespace: string) => admin.get(pods, 'db-0', { namespace });
const claimOf = (namespace: string, claim = 'data') =>
  admin.get(persistentVolumeClaims, `${claim}-db-0`, { namespace });
const annotate = (namespace: string, annotations: Record<string, string>) =>
  admin.patch(
    persistentVolumeClaims,
    'data-db-0',
    { type: 'merge', body: { metadata: { annotations } } },
    { namespace },
  );
const explain = async () =>
  `${await cluster.kubectl('get', 'pods,pvc,nodes', '-A', '-o', 'yaml')}\n${await controller.tail()}`;

/** A pod that may lose its data, on the only node; a second node comes when its claims are bound. */
async function losable(t: TestContext, name: string, { claims = ['data'], isHeld = false } = {}) {
  const namespace = await newNamespace(api, name);
  const { machines } = simulatedNodes(t, admin);
  const [a, b]: [string, string] = [`${name}-a`, `${name}-b`];
  await machines.add(a, room);
  const annotations = { [onDrain.annotation]: 'drop' };
  const selector = { nodeSelector: { test: name } };
  const volumeMounts = claims.map((claim) => ({ name: claim, mountPath: `/${claim}` }));
  const containers = podSpec.containers.map((container) => ({ ...container, volumeMounts }));
  await admin.patch(nodes, a, { type: 'merge', body: { metadata: { labels: { test: name } } } });
  await createSet(admin, namespace, 'db', 'local', { claims, annotations, pod: { ...selector, containers } });
  for (const claim of claims) {
    await eventually('its claim is bound', async () => (await claimOf(namespace, claim))?.status?.phase === 'Bound', {
      explain,
    });
  }
  if (isHeld) await hold(t, namespace);
  await machines.add(b, room, { test: name });
  await eventually(`${b} is ready`, async () => ((await admin.get(nodes, b))?.spec?.taints ?? []).length === 0);
  const uids = await Promise.all(claims.map(async (claim) => (await claimOf(namespace, claim))?.metadata.uid));
  const pod = await eventually('the pod is on its node', async () => {
    const found = await podOf(namespace);
    return found?.spec?.nodeName === a ? found : undefined;
  });
  const uid = pod.metadata.uid;
  t.after(() => admin.delete(statefulSets, 'db', { namespace }));
  return { namespace, a, b, uid, uids, claims };
}

async function hold(t: TestContext, namespace: string): Promise<void> {
  const body = { metadata: { finalizers: [holding] } };
  await admin.patch(pods, 'db-0', { type: 'merge', body }, { namespace });
  t.after(() => release(namespace));
}

async function release(namespace: string): Promise<void> {
  if (!(await podOf(namespace))?.metadata.finalizers?.includes(holding)) return;
  await admin.patch(pods, 'db-0', { type: 'merge', body: { metadata: { finalizers: null } } }, { namespace });
}

type Losable = Awaited<ReturnType<typeof losable>>;

async function areDropped({ namespace, b, uids, claims }: Losable): Promise<void> {
  for (const [index, claim] of claims.entries()) {
    await eventually(
      `claim ${claim} is a new one`,
      async () => {
        const { uid, deletionTimestamp } = (await claimOf(namespace, claim))?.metadata ?? {};
        return uid !== undefined && uid !== uids[index] && deletionTimestamp === undefined;
      },
      { explain },
    );
  }
  await eventually('the pod runs elsewhere', async () => (await podOf(namespace))?.spec?.nodeName === b, { explain });
}

/** The claims are the same, and nothing has been ordered. */
async function areKept({ namespace, uids, claims }: Losable): Promise<void> {
  for (const [index, claim] of claims.entries()) {
    const { uid, annotations = {}, deletionTimestamp } = (await claimOf(namespace, claim))?.metadata ?? {};
    assert.equal(uid, uids[index]);
    assert.equal(deletionTimestamp, undefined);
    assert.ok(!(order in annotations) && !(droppingAnnotation in annotations), JSON.stringify(annotations));
  }
}

/** A later eviction was acted on: what an earlier message leads to has been done as well. */
async function laterEvictionActsOn(t: TestContext, name: string): Promise<void> {
  const later = await losable(t, name);
  await cluster.kubectl('cordon', later.a);
  await admin.evict('db-0', { namespace: later.namespace, uid: later.uid });
  await areDropped(later);
}

/** Runs `act` while there is no leader. Resolves when the controller is the leader again. */
async function withoutLeader(act: () => Promise<void>): Promise<void> {
  const isLed = async () => {
    const lease = await admin.get(leases, 'topolvm', { namespace: 'moorage-system' });
    return Boolean(lease?.spec?.holderIdentity);
  };
  await controller.kill('SIGTERM');
  assert.equal(await isLed(), false);
  await act();
  controller.start();
  await eventually('the controller is the leader', isLed, { explain });
}

const review = (namespace: string) => ({
  apiVersion: 'admission.k8s.io/v1',
  kind: 'AdmissionReview',
  request: { uid: '1', namespace, name: 'db-0', object: { kind: 'Eviction', metadata: { name: 'db-0', namespace } } },
});

test('a granted eviction from a drained node gives the data up', async (t) => {
  const pod = await losable(t, 'granted', { claims: ['data', 'log'] });
  await cluster.kubectl('cordon', pod.a);
  await admin.evict('db-0', pod);
  await areDropped(pod);
});

test('a forged AdmissionReview gives nothing up', async (t) => {
  const pod = await losable(t, 'forged');
  await cluster.kubectl('cordon', pod.a);
  const before = await claimOf(pod.namespace);
  const script = `const [url, body] = process.argv.slice(1);
    console.log(await (await fetch(url, { method: 'POST', body })).text());`;
  const forge = [process.execPath, '--no-warnings', '--input-type=module', '--eval', script];
  const url = 'https://localhost:9443/eviction/validate';
  const [command, ...words] = [...cluster.namespaces.enter, ...forge, url, JSON.stringify(review(pod.namespace))];
  const env = { NODE_TLS_REJECT_UNAUTHORIZED: '0' };
  assert.match((await execute(command, words, { env })).stdout, /"allowed":true/);

  await laterEvictionActsOn(t, 'forged-later');
  assert.equal((await claimOf(pod.namespace))?.metadata.resourceVersion, before?.metadata.resourceVersion);
  assert.equal((await podOf(pod.namespace))?.metadata.uid, pod.uid);
});

test('an eviction from a node that is not drained keeps the data', async (t) => {
  const pod = await losable(t, 'open', { isHeld: true });
  await admin.evict('db-0', pod);
  await laterEvictionActsOn(t, 'open-later');
  // A drain that begins before the pod is gone is not why it was evicted.
  await cluster.kubectl('cordon', pod.a);
  await release(pod.namespace);
  await laterEvictionActsOn(t, 'open-last');
  await areKept(pod);
  await cluster.kubectl('uncordon', pod.a);
  await eventually('the pod is back', async () => {
    const found = await podOf(pod.namespace);
    return found?.metadata.uid !== pod.uid && found?.spec?.nodeName === pod.a;
  });
});

/** What gives volumes up, in this process, with a client that dies. */
function leadFor(t: TestContext, client: KubeClient): () => Promise<void> {
  const watches = {
    pods: new Informer({ ...common, resource: pods, fieldSelector: scheduled, project: podOnNode }),
    claims: new Informer({ ...common, resource: persistentVolumeClaims, project: watchedClaim }),
  };
  const collaborators = { ...common, ...watches, client };
  return leadWith(t, watches, evictedPods(collaborators), droppedVolumes(collaborators));
}

test('a webhook that has not seen that the claim now says wait gives nothing up', async (t) => {
  const pod = await losable(t, 'stale', { isHeld: true });
  await cluster.kubectl('cordon', pod.a);
  const project = (volume: Parameters<typeof volumeOnDrain>[0]) => ({ onDrain: volumeOnDrain(volume) });
  const stale = {
    pods: new Informer({ ...common, resource: pods, fieldSelector: scheduled, project: podOnNode }),
    nodes: new Informer({ ...common, resource: nodes, project: (node) => ({ isDraining: isDraining(node) }) }),
    claims: new Informer({ ...common, resource: persistentVolumeClaims, project: watchedClaim }),
    persistentVolumes: new Informer({ ...common, resource: persistentVolumes, project }),
    moves: new Informer({ ...common, resource: volumeMoves }),
  };
  const webhook = new EvictionWebhook({ ...common, ...stale });
  const workers = new Workers([webhook.work], { ...common, random: Math.random });
  for (const watch of Object.values(stale)) watch.start();
  workers.start();
  t.after(() => Promise.all([workers.stop(0), ...Object.values(stale).map((watch) => watch.stop())]));
  await Promise.all(Object.values(stale).map((watch) => watch.whenSynced()));
  assert.equal(stale.claims.get(`${pod.namespace}/data-db-0`)?.onDrain?.policy, 'drop');
  await stale.claims.stop();

  await withoutLeader(async () => {
    await annotate(pod.namespace, { [onDrain.annotation]: 'wait' });
    const { response } = (await webhook.validate(review(pod.namespace))) as { response: { allowed: boolean } };
    assert.equal(response.allowed, true);
    await admin.evict('db-0', pod);
  });
  await laterEvictionActsOn(t, 'stale-later');
  await areKept(pod);
});

test('a drain that was given up before the leader looked keeps the data', async (t) => {
  const pod = await losable(t, 'given-up', { isHeld: true });
  await withoutLeader(async () => {
    await cluster.kubectl('cordon', pod.a);
    await admin.evict('db-0', pod);
    await cluster.kubectl('uncordon', pod.a);
  });
  await laterEvictionActsOn(t, 'given-up-later');
  await areKept(pod);
});

test('when a leader ends between the claims of a pod, the next one continues, even if the pod is gone', async (t) => {
  for (const writes of [1, 2, 3]) {
    const pod = await losable(t, `ends-${writes}`, { claims: ['data', 'log', 'tmp'] });
    await withoutLeader(async () => {
      const leader = mortal(admin, writes);
      const end = leadFor(t, leader.client);
      await cluster.kubectl('cordon', pod.a);
      await admin.evict('db-0', pod);
      await eventually('it has ended', async () => leader.isDead(), { explain });
      await end();
      const orders = await Promise.all(
        pod.claims.map(async (claim) => (await claimOf(pod.namespace, claim))?.metadata.annotations?.[order]),
      );
      assert.equal(orders.filter((word) => word === 'force').length, writes - 1);
    });
    await areDropped(pod);
  }
});

test('a pod that was evicted while nobody was leader waits, and its data can be given up', async (t) => {
  const pod = await losable(t, 'missed');
  await withoutLeader(async () => {
    await cluster.kubectl('cordon', pod.a);
    await admin.evict('db-0', pod);
    await eventually('a new pod waits', async () => {
      const found = await podOf(pod.namespace);
      return found !== undefined && found.metadata.uid !== pod.uid;
    });
  });
  await laterEvictionActsOn(t, 'missed-later');
  await areKept(pod);
  const plugin = kubectlMoorage({ columns: undefined, colours: false });
  const env = { KUBECONFIG: cluster.kubeconfig };
  const printed: string[] = [];
  await assert.rejects(runCaptured(plugin, ['why', 'pod/db-0', '-n', 'missed'], { env, printed }), ProblemsFound);
  assert.match(
    printed.join(),
    /its data is on node missed-a, which is cordoned; run kubectl uncordon missed-a, or give/,
  );
  assert.match(printed.join(), /kubectl moorage drop pvc\/data-db-0 -n missed #/);
  await runCaptured(plugin, ['drop', 'pvc/data-db-0', '-n', 'missed', '--yes'], { env });
  await areDropped(pod);
});
