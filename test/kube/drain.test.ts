import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { driverName, karpenterFinalizer, nodeFinalizer, onDrain, topologyKey } from '../../src/api/names.ts';
import { volumeMoves } from '../../src/api/volume-move.ts';
import { runCaptured } from '../../src/base/testing/run-captured.ts';
import { ApiError } from '../../src/kube/api-error.ts';
import {
  affinityValues,
  nodes,
  persistentVolumeClaims,
  persistentVolumes,
  pods,
  statefulSets,
  storageClasses,
} from '../../src/kube/resource.ts';
import { kubectlMoorage } from '../../src/plugin/program.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { spawn } from '../../worlds/host/processes.ts';
import { newNamespace, startApiServer } from './api-server.ts';
import { startEvictionWebhook } from './eviction-webhook.ts';
import { createSet, Machines } from './machines.ts';
import { eventsOf } from './removed-nodes.ts';
import { SimulatedMovers } from './simulated-movers.ts';
import { room } from './simulated-nodes.ts';
import { SmallOperator } from './small-operator.ts';

const api = await startApiServer();
const { admin, cluster } = api;
const controller = await startEvictionWebhook(api);
await admin.create(storageClasses, {
  metadata: { name: 'local' },
  provisioner: driverName,
  volumeBindingMode: 'WaitForFirstConsumer',
});
const plugin = kubectlMoorage({ columns: undefined, colours: false });

/** Node a with a pod for each policy, and node b with this annotation. */
async function drained(t: TestContext, namespace: string, policies: readonly string[], capacity = room) {
  await newNamespace(api, namespace);
  const machines = new Machines(admin);
  const movers = new SimulatedMovers(admin);
  const [a, b]: [string, string] = [`${namespace}-a`, `${namespace}-b`];
  t.after(async () => {
    for (const { metadata } of (await admin.list(statefulSets, { namespace })).items) {
      await admin.delete(statefulSets, metadata.name, { namespace });
    }
    await Promise.all([machines.stop(), movers.stop()]);
    for (const name of [a, b]) {
      if (!(await admin.get(nodes, name))) continue;
      await admin.patch(nodes, name, { type: 'merge', body: { metadata: { finalizers: null } } });
      await admin.delete(nodes, name);
    }
  });
  await machines.add(a, room);
  for (const policy of policies) await createSet(admin, namespace, policy, 'local');
  for (const policy of policies) {
    await eventually(
      `pod ${policy}-0 is on its node`,
      async () => (await podOf(namespace, policy))?.spec?.nodeName === a,
    );
    await eventually('its claim is bound', async () => (await claimOf(namespace, policy))?.status?.phase === 'Bound');
    await annotate(namespace, policy, { [onDrain.annotation]: policy });
  }
  await machines.add(b, capacity);
  await eventually(`${b} is ready`, async () => ((await admin.get(nodes, b))?.spec?.taints ?? []).length === 0);
  const uids = await Promise.all(policies.map(async (policy) => (await claimOf(namespace, policy))?.metadata.uid));
  return { a, b, movers, uids };
}

const podOf = (namespace: string, set: string) => admin.get(pods, `${set}-0`, { namespace });
const claimOf = (namespace: string, set: string) => admin.get(persistentVolumeClaims, `data-${set}-0`, { namespace });
const annotate = (namespace: string, set: string, annotations: Record<string, string | null>) =>
  admin.patch(
    persistentVolumeClaims,
    `data-${set}-0`,
    { type: 'merge', body: { metadata: { annotations } } },
    { namespace },
  );

async function nodeOfVolume(namespace: string, set: string): Promise<string | undefined> {
  const volume = await admin.get(persistentVolumes, (await claimOf(namespace, set))?.spec?.volumeName ?? '');
  return volume && affinityValues(volume, topologyKey)?.[0];
}

/** What the API server says about an eviction; `evicted` if it is done. */
async function evict(namespace: string, set: string): Promise<string> {
  const { uid = '' } = (await podOf(namespace, set))?.metadata ?? {};
  try {
    await admin.evict(`${set}-0`, { namespace, uid });
    return 'evicted';
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 429) throw error;
    return error.message;
  }
}

/** A real `kubectl drain`: what it has said so far, and its exit code. */
function kubectlDrain(t: TestContext, node: string, ...flags: string[]) {
  const kubectl = cluster.binaries.kubernetes.kubectl;
  const words = ['drain', node, '--ignore-daemonsets', '--timeout=600s', ...flags];
  const child = spawn(kubectl, [`--kubeconfig=${cluster.kubeconfig}`, ...words]);
  let said = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (said += chunk));
  const code = new Promise<number | null>((resolve) => child.once('exit', resolve));
  t.after(() => void child.kill());
  return { said: () => said, code };
}

const explain = async () =>
  `${await cluster.kubectl('get', 'volumemoves,pods,pvc,nodes', '-A', '-o', 'wide')}\n${await controller.tail()}`;

test('a drain moves the volumes that say so, and ends by itself; pods of the others wait for their node, as always', async (t) => {
  const { a, b, uids, movers } = await drained(t, 'ends', ['move', 'wait']);
  const before = await Promise.all(['move', 'wait'].map(async (set) => (await podOf('ends', set))?.metadata.uid));
  const rehearsal = kubectlDrain(t, a, '--dry-run=server');
  assert.equal(await rehearsal.code, 0, rehearsal.said());
  assert.deepEqual((await admin.list(volumeMoves, { namespace: 'ends' })).items, []);
  movers.silentIn = 'Copying'; // or the move may be over before the drain asks
  const drain = kubectlDrain(t, a);
  const refusal = /pods\/"move-0" .*\(will retry after 5s\).*eviction-hook.moorage.dev.*claim data-move-0/;
  await eventually('the drain says what it waits for', async () => refusal.test(drain.said()), { explain });
  movers.silentIn = undefined;
  assert.equal(await drain.code, 0, drain.said());

  assert.equal(await nodeOfVolume('ends', 'move'), b);
  assert.equal(await nodeOfVolume('ends', 'wait'), a);
  await eventually('the pod runs on the other node', async () => (await podOf('ends', 'move'))?.spec?.nodeName === b, {
    explain,
  });
  await eventually('the other pod waits', async () => {
    const pod = await podOf('ends', 'wait');
    return pod?.metadata.uid !== before[1] && pod?.spec?.nodeName === undefined;
  });
  assert.deepEqual(
    await Promise.all(['move', 'wait'].map(async (set) => (await claimOf('ends', set))?.metadata.uid)),
    uids,
  );
  const moves = (await admin.list(volumeMoves, { namespace: 'ends' })).items;
  assert.deepEqual(
    moves.map(({ spec, status }) => [spec.claimName, status?.phase]),
    [['data-move-0', 'Done']],
  );
});

test('if no node has room the drain says so; an abort, or the policy wait, lets it go on', async (t) => {
  const { a } = await drained(t, 'full', ['move'], { 'capacity.topolvm.io/00default': '1' });
  await cluster.kubectl('cordon', a);
  const refused = async () => {
    const said = await evict('full', 'move');
    return (
      /cannot begin yet: node full-b: it has 1 B free.*kubectl moorage abort data-move-0 -n full/.test(said) && said
    );
  };
  await eventually('it names the reason', refused, { explain });
  const uid = (await podOf('full', 'move'))?.metadata.uid;

  // The drain is given up: the move that waits must not begin later.
  await cluster.kubectl('uncordon', a);
  const [move] = (await admin.list(volumeMoves, { namespace: 'full' })).items;
  await eventually('its move is withdrawn', async () => {
    const found = await admin.get(volumeMoves, move?.metadata.name ?? '', { namespace: 'full' });
    return found?.status?.phase === 'Failed' && /no longer drained/.test(found.status.message ?? '');
  });
  assert.equal((await podOf('full', 'move'))?.metadata.uid, uid);
  await cluster.kubectl('cordon', a);
  await eventually('another drain tries again at once', refused, { explain });

  const words = ['abort', 'data-move-0', '-n', 'full'];
  assert.match(await runCaptured(plugin, words, { env: { KUBECONFIG: cluster.kubeconfig } }), /: Aborted, /);
  await eventually('the pod is evicted', async () => (await evict('full', 'move')) === 'evicted');
  await cluster.kubectl('uncordon', a);
  await eventually('it is back', async () => {
    const pod = await podOf('full', 'move');
    return pod?.metadata.uid !== uid && pod?.spec?.nodeName === a;
  });

  await admin.delete(volumeMoves, move?.metadata.name ?? '', { namespace: 'full' });
  await cluster.kubectl('cordon', a);
  await eventually('the next drain is refused', refused, { explain });
  await annotate('full', 'move', { [onDrain.annotation]: 'wait' });
  await eventually('the pod is evicted', async () => (await evict('full', 'move')) === 'evicted');
});

test('an autoscaler drains by a taint, without a cordon; other evictions pass', async (t) => {
  const { a } = await drained(t, 'scaled', ['move']);
  const taints = async (...keys: string[]) =>
    admin.patch(nodes, a, {
      type: 'merge',
      body: { spec: { taints: keys.map((key) => ({ key, effect: 'NoSchedule' })) } },
    });
  for (const key of ['ToBeDeletedByClusterAutoscaler', 'karpenter.sh/disrupted']) {
    await taints(key);
    await annotate('scaled', 'move', { [onDrain.annotation]: 'Move' }); // a word that is no policy, so that nothing moves
    await eventually(key, async () => /is "Move"; use one of/.test(await evict('scaled', 'move')), { explain });
  }
  const reported = async () => (await eventsOf(admin, 'PersistentVolumeClaim', 'data-move-0')).join('\n');
  await eventually(
    'its owner is told',
    async () => /^InvalidPolicy: .* is "Move"; use one of/m.test(await reported()),
    {
      explain: reported,
    },
  );
  await taints();
  await eventually('it is evicted', async () => (await evict('scaled', 'move')) === 'evicted');
});

test('Karpenter deletes a Node and then drains it: its volumes move, and the Node goes when Karpenter is done', async (t) => {
  const { a, b, uids } = await drained(t, 'karpenter', ['move']);
  const holdBy = (finalizers: readonly string[]) =>
    admin.patch(nodes, a, { type: 'merge', body: { metadata: { finalizers } } });
  await holdBy([nodeFinalizer, karpenterFinalizer]);
  const taints = [{ key: 'karpenter.sh/disrupted', effect: 'NoSchedule' }];
  await admin.patch(nodes, a, { type: 'merge', body: { spec: { taints } } });
  await admin.delete(nodes, a);
  const isOnB = async () => {
    if ((await podOf('karpenter', 'move'))?.spec?.nodeName === b) return true;
    await evict('karpenter', 'move').catch(() => {}); // it tries again and again, and so do we; the pod may be gone
    return false;
  };
  await eventually('the pod runs on the other node', isOnB, { explain });
  assert.ok(await admin.get(nodes, a)); // nothing was given up behind the back of Karpenter
  await holdBy([nodeFinalizer]);
  await eventually('the Node is gone', async () => !(await admin.get(nodes, a)), { explain });
  assert.equal(await nodeOfVolume('karpenter', 'move'), b);
  assert.equal((await claimOf('karpenter', 'move'))?.metadata.uid, uids[0]);
});

test('an operator moves its data before its node is drained; no longer if the drain is given up', async (t) => {
  const { a, b, uids } = await drained(t, 'asked', ['delegate']);
  const operator = new SmallOperator(admin);
  t.after(() => operator.stop());
  await cluster.kubectl('cordon', a);
  const says = /claim data-delegate-0: its operator was asked to leave node asked-a at .*: 1 of 2 shards is still here/;
  await eventually('its message is shown', async () => says.test(await evict('asked', 'delegate')), { explain });
  const annotationsOf = async () => Object.keys((await claimOf('asked', 'delegate'))?.metadata.annotations ?? {});
  await cluster.kubectl('uncordon', a);
  await eventually(
    'the request is withdrawn',
    async () => !(await annotationsOf()).some((key) => /moorage.dev\/(delete|drained-from|lea)/.test(key)),
    { explain },
  );

  const drain = kubectlDrain(t, a);
  await eventually('it is asked again', async () => says.test(drain.said()), { explain });
  assert.equal((await claimOf('asked', 'delegate'))?.metadata.uid, uids[0]);
  await operator.finish();
  assert.equal(await drain.code, 0, drain.said());
  await eventually('there is a new instance', async () => (await podOf('asked', 'delegate'))?.spec?.nodeName === b, {
    explain,
  });
  assert.notEqual((await claimOf('asked', 'delegate'))?.metadata.uid, uids[0]);
  assert.deepEqual((await admin.list(volumeMoves, { namespace: 'asked' })).items, []);
});

test('data that may be lost is given up: pod and claim are created again elsewhere', async (t) => {
  const { a, b, uids, movers } = await drained(t, 'given', ['drop']);
  const drain = kubectlDrain(t, a);
  assert.equal(await drain.code, 0, drain.said());
  await eventually('it starts again', async () => (await podOf('given', 'drop'))?.spec?.nodeName === b, { explain });
  assert.notEqual((await claimOf('given', 'drop'))?.metadata.uid, uids[0]);
  assert.deepEqual(movers.removed, []); // nobody has asked for its removal but csi-provisioner, which does not run here
});

test('evictions go on while no controller answers', async (t) => {
  const { a } = await drained(t, 'down', ['move']);
  await cluster.kubectl('cordon', a);
  await controller.kill();
  const drain = kubectlDrain(t, a);
  assert.equal(await drain.code, 0, drain.said());
  assert.equal(await nodeOfVolume('down', 'move'), a);
});
