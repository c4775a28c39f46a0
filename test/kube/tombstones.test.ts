import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { logicalVolumes } from '../../src/api/logical-volume.ts';
import { driverName, leave, onDrain, onScaleDown, tombstone } from '../../src/api/names.ts';
import { volumeMoves } from '../../src/api/volume-move.ts';
import { systemClock } from '../../src/base/clock.ts';
import { runCaptured } from '../../src/base/testing/run-captured.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import { annotatedNode } from '../../src/controller/capacity/annotated-capacities.ts';
import { watchedClaim } from '../../src/controller/claims/volume-claims.ts';
import type { MaybeStatic } from '../../src/controller/local-pv/static-volumes.ts';
import { movesOfVolumes } from '../../src/controller/moves/volume-moves.ts';
import { strandedPods } from '../../src/controller/node-removal/stranded-pods.ts';
import { type ClaimName, scalableClaimOf } from '../../src/controller/tombstones/scale-down.ts';
import { scaledClaims } from '../../src/controller/tombstones/scaled-claims.ts';
import { tombstones } from '../../src/controller/tombstones/tombstones.ts';
import type { KubeClient } from '../../src/kube/client.ts';
import { Informer } from '../../src/kube/informer.ts';
import {
  nodes,
  type PersistentVolume,
  persistentVolumeClaims,
  persistentVolumes,
  pods,
  type Stored,
  statefulSets,
  storageClasses,
} from '../../src/kube/resource.ts';
import { claimingSet } from '../../src/kube/stateful-set.ts';
import { kubectlMoorage } from '../../src/plugin/program.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { newNamespace, startApiServer } from './api-server.ts';
import { createSet, mortal, podSpec } from './machines.ts';
import { claimUsers, createVolume, eventsOf, leadWith, left, reporting } from './removed-nodes.ts';
import { room, simulatedNodes } from './simulated-nodes.ts';

const api = await startApiServer();
const { admin, cluster } = api;
await cluster.kubectl('apply', `-f${join(import.meta.dirname, '..', '..', 'deploy', 'crd.yaml')}`);
await admin.create(storageClasses, {
  metadata: { name: 'local' },
  provisioner: driverName,
  volumeBindingMode: 'WaitForFirstConsumer',
});
const [deleteAnnotation] = tombstone.annotations;

const plugin = kubectlMoorage({ columns: undefined, colours: false });
const kubectlMoorageOf = (...words: string[]) =>
  runCaptured(plugin, words, { env: { KUBECONFIG: cluster.kubeconfig } });

/** The controller's work, with watches of its own. */
function leadOrders(t: TestContext, client: KubeClient = admin): () => Promise<void> {
  const common = { client: admin, clock: systemClock, log: silentLog };
  const project = (volume: Stored<PersistentVolume>): MaybeStatic & { scalable?: ClaimName | undefined } => ({
    scalable: scalableClaimOf(volume),
  });
  const { users, ...podWatches } = claimUsers(admin);
  const watches = {
    moves: new Informer({ ...common, resource: volumeMoves }),
    claims: new Informer({ ...common, resource: persistentVolumeClaims, project: watchedClaim }),
    ...podWatches,
    persistentVolumes: new Informer({ ...common, resource: persistentVolumes, project }),
    volumes: new Informer({ ...common, resource: logicalVolumes }),
    nodes: new Informer({ ...common, resource: nodes, project: annotatedNode }),
    sets: new Informer({ ...common, resource: statefulSets, project: claimingSet }),
  };
  const collaborators = { ...reporting(client), ...watches, users };
  return leadWith(
    t,
    watches,
    tombstones(collaborators),
    scaledClaims(collaborators),
    strandedPods(collaborators),
    movesOfVolumes(collaborators),
  );
}

/** Machines of these names, until the test ends. */
async function machinesOf(t: TestContext, ...names: readonly string[]) {
  const { machines, movers } = simulatedNodes(t, admin);
  for (const name of names) await machines.add(name, room);
  return { machines, movers };
}

const claimNamed = (namespace: string, name: string) => admin.get(persistentVolumeClaims, name, { namespace });

async function annotate(namespace: string, name: string, annotations: Record<string, string | null>): Promise<void> {
  const body = { metadata: { annotations } };
  await admin.patch(persistentVolumeClaims, name, { type: 'merge', body }, { namespace });
}

/** Waits until a pod of set `db` runs with a bound claim that is not the earlier one; returns both. */
async function placed(namespace: string, earlier?: string) {
  return eventually(
    'the pod has its claim',
    async () => {
      const pod = await admin.get(pods, 'db-0', { namespace });
      const claim = await claimNamed(namespace, 'data-db-0');
      const node = pod?.metadata.deletionTimestamp ? undefined : pod?.spec?.nodeName;
      const { uid = '', deletionTimestamp } = claim?.metadata ?? {};
      const isBound = claim?.status?.phase === 'Bound' && uid !== earlier && !deletionTimestamp;
      return node !== undefined && isBound ? { node, uid, volume: claim.spec?.volumeName ?? '' } : undefined;
    },
    { timeoutMs: 120_000, explain: async () => cluster.kubectl('-n', namespace, 'get', 'pods,pvc,pv,events') },
  );
}

async function orderIsWithdrawn(namespace: string, name: string): Promise<void> {
  await eventually('the order is withdrawn', async () => {
    const { annotations = {} } = (await claimNamed(namespace, name))?.metadata ?? {};
    return !(deleteAnnotation in annotations) && !(tombstone.move in annotations);
  });
}

test('force: a pod gets a new claim and volume elsewhere, whichever write is the last one of a controller', async (t) => {
  const namespace = await newNamespace(api, 'force');
  const { machines } = await machinesOf(t, 'force-a', 'force-b');
  await createSet(admin, namespace, 'db', 'local');
  let before = await placed(namespace);
  for (let writes = 0, isDead = true; isDead; writes++) {
    const dying = mortal(admin, writes);
    const endDying = leadOrders(t, dying.client);
    await machines.powerOff(before.node);
    await annotate(namespace, 'data-db-0', { [deleteAnnotation]: 'force' });
    const isReleased = async () => (await claimNamed(namespace, 'data-db-0'))?.metadata.uid !== before.uid;
    await eventually('the controller dies, or is done', async () => dying.isDead() || (await isReleased()));
    isDead = dying.isDead();
    await endDying();
    const end = leadOrders(t);

    const now = await placed(namespace, before.uid);
    assert.notEqual(now.node, before.node);
    assert.notEqual(now.volume, before.volume);
    assert.equal(
      await admin.get(logicalVolumes, before.volume),
      undefined,
      'nothing refers to the volume on its disks',
    );
    await end();
    await machines.powerOn(before.node);
    before = now;
  }
});

test('force: a volume that is healthy and in use is given up only with its name', async (t) => {
  const namespace = await newNamespace(api, 'healthy');
  await machinesOf(t, 'healthy-a');
  await createSet(admin, namespace, 'db', 'local');
  const before = await placed(namespace);
  leadOrders(t);
  await annotate(namespace, 'data-db-0', { [deleteAnnotation]: 'now' });
  const says = (words: RegExp) =>
    eventually(`an Event says ${words}`, async () =>
      (await eventsOf(admin, 'PersistentVolumeClaim', 'data-db-0')).some((event) => words.test(event)),
    );
  await says(/^InvalidTombstone: moorage.dev\/delete is "now"; use graceful or force$/);
  await annotate(namespace, 'data-db-0', { [deleteAnnotation]: 'force' });
  await orderIsWithdrawn(namespace, 'data-db-0');
  await says(/^TombstoneRefused: nothing was done.*the volume is healthy, and pod db-0 uses it/);

  const old = await admin.get(pods, 'db-0', { namespace });
  await admin.delete(pods, 'db-0', { namespace });
  await eventually('the pod is another one', async () => {
    const pod = await admin.get(pods, 'db-0', { namespace });
    return pod && pod.metadata.uid !== old?.metadata.uid;
  });
  assert.equal((await placed(namespace)).uid, before.uid, 'a refused order has no effect later');

  const orders = await kubectlMoorageOf('drop', 'pod/db-0', '-n', namespace, '--dry-run');
  assert.match(orders, new RegExp(`moorage.dev/delete: force\\n +moorage.dev/confirm: ${before.volume}`));
  assert.match(await kubectlMoorageOf('drop', 'pod/db-0', '-n', namespace), /--yes$/);
  assert.equal((await placed(namespace)).uid, before.uid, 'it has only said what would be lost');
  const output = await kubectlMoorageOf('drop', 'pvc/data-db-0', '-n', namespace, '--yes');
  const now = await placed(namespace, before.uid);
  assert.match(output, new RegExp(`claim healthy/data-db-0 has the new volume ${now.volume} on node healthy-a$`));
  assert.notEqual(now.volume, before.volume);
  assert.ok(await admin.get(logicalVolumes, before.volume), 'its node removes it, as for every deleted claim');
});

test('force: with Retain the volume stays, and what nobody creates again is named', async (t) => {
  const namespace = await newNamespace(api, 'retained');
  leadOrders(t);
  await createVolume(admin, 'kept', { node: 'gone', namespace, reclaimPolicy: 'Retain' });
  await annotate(namespace, 'kept', { 'elasticsearch.k8s.elastic.co/delete': 'force' });
  await eventually('the claim is gone', async () => !(await claimNamed(namespace, 'kept')));
  assert.deepEqual(await left(admin, 'kept', namespace), ['volume', 'logicalVolume']);
  const isReleased = async () => (await admin.get(persistentVolumes, 'kept'))?.status?.phase === 'Released';
  await eventually('the volume is Released', isReleased);
  assert.deepEqual(await eventsOf(admin, 'PersistentVolumeClaim', 'kept'), [
    'ClaimReleased: deleting this claim: node gone is not in the cluster, and moorage.dev/delete is force; ' +
      'PersistentVolume kept is retained',
    'NotRecreated: nothing creates this claim again: create it yourself',
    'NotRecreated: pod kept has no owner: nothing creates it again',
  ]);
});

test('graceful: the data moves and the claim stays, whichever write is the last one of a controller', async (t) => {
  const namespace = await newNamespace(api, 'graceful');
  await machinesOf(t, 'graceful-a');
  await createSet(admin, namespace, 'db', 'local');
  const before = await placed(namespace);
  const end = leadOrders(t);
  await annotate(namespace, 'data-db-0', { [deleteAnnotation]: 'graceful' });
  await orderIsWithdrawn(namespace, 'data-db-0');
  const [refused] = (await admin.list(volumeMoves, { namespace })).items;
  assert.equal(refused?.status?.phase, 'Failed', 'there is no other node');
  const events = await eventsOf(admin, 'PersistentVolumeClaim', 'data-db-0');
  assert.ok(
    events.some((event) => event.startsWith('TombstoneRefused: ')),
    events.join('\n'),
  );
  await end();

  await machinesOf(t, 'graceful-b');
  let moves = 1;
  for (let writes = 0; writes < 4; writes++) {
    const { node } = await placed(namespace);
    const dying = mortal(admin, writes);
    const endDying = leadOrders(t, dying.client);
    await annotate(namespace, 'data-db-0', { [deleteAnnotation]: 'graceful' });
    await eventually('the controller dies', async () => dying.isDead());
    await endDying();
    const endNext = leadOrders(t);
    await orderIsWithdrawn(namespace, 'data-db-0');
    await eventually('the pod has moved', async () => (await placed(namespace)).node !== node);
    assert.equal((await placed(namespace)).uid, before.uid, 'the claim stays');
    const { items } = await admin.list(volumeMoves, { namespace });
    assert.equal(items.length, ++moves, 'it moved once');
    await endNext();
  }
});

test('graceful: with the policy delegate, claim and volume are deleted after the answer of the operator', async (t) => {
  const namespace = await newNamespace(api, 'delegated');
  await machinesOf(t, 'delegated-a');
  await createSet(admin, namespace, 'db', 'local', { annotations: { [onDrain.annotation]: 'delegate' } });
  const before = await placed(namespace);
  leadOrders(t);
  await annotate(namespace, 'data-db-0', { [deleteAnnotation]: 'graceful' });
  const request = await eventually('the operator is asked', async () => {
    return (await claimNamed(namespace, 'data-db-0'))?.metadata.annotations?.[leave.request];
  });
  assert.match(request, /^delegated-a@\d{4}-/);
  await annotate(namespace, 'data-db-0', { [deleteAnnotation]: null });
  const annotations = async () => (await claimNamed(namespace, 'data-db-0'))?.metadata.annotations ?? {};
  await eventually('the request is withdrawn, too', async () => !(leave.request in (await annotations())));
  await annotate(namespace, 'data-db-0', { [leave.acknowledgement]: request, [deleteAnnotation]: 'graceful' });
  const second = await eventually('the operator is asked again', async () => (await annotations())[leave.request]);
  assert.notEqual(second, request);
  assert.equal((await placed(namespace)).uid, before.uid, 'the answer was to an earlier request');
  await annotate(namespace, 'data-db-0', { [leave.acknowledgement]: second });
  assert.notEqual((await placed(namespace, before.uid)).volume, before.volume);
  assert.equal((await admin.list(volumeMoves, { namespace })).items.length, 0);
});

test('claims of pods that are scaled away are released by policy, beside the retention policy of Kubernetes', async (t) => {
  const namespace = await newNamespace(api, 'scaled');
  await machinesOf(t, 'scaled-a');
  const rows = [
    { name: 'both', policy: 'delete', whenScaled: 'Delete', isKept: false },
    { name: 'ours', policy: 'delete', whenScaled: 'Retain', isKept: false },
    { name: 'theirs', policy: 'keep', whenScaled: 'Delete', isKept: false },
    { name: 'none', policy: 'keep', whenScaled: 'Retain', isKept: true },
    { name: 'late', policy: 'keep', whenScaled: 'Retain', isKept: true },
    { name: 'deleted', policy: 'delete', whenScaled: 'Retain', isKept: true },
  ] as const;
  leadOrders(t);
  for (const { name, policy, whenScaled } of rows) {
    const annotations = { [onScaleDown.annotation]: policy };
    const set = {
      replicas: 2,
      podManagementPolicy: 'Parallel', // no kubelet makes the first pod Ready
      persistentVolumeClaimRetentionPolicy: { whenScaled },
    };
    await createSet(admin, namespace, name, 'local', { set, annotations });
  }
  const isBound = async (name: string) => (await claimNamed(namespace, name))?.status?.phase === 'Bound';
  for (const { name } of rows) {
    for (const ordinal of [0, 1]) await eventually(`${name}-${ordinal}`, () => isBound(`data-${name}-${ordinal}`));
  }
  // A set that is gone proves nothing about its claims.
  await admin.delete(statefulSets, 'deleted', { namespace, propagationPolicy: 'Foreground' });
  for (const { name } of rows.filter((row) => row.name !== 'deleted')) {
    await admin.patch(statefulSets, name, { type: 'merge', body: { spec: { replicas: 1 } } }, { namespace });
  }
  const isThere = async (name: string) => (await claimNamed(namespace, name)) !== undefined;
  for (const { name, isKept } of rows) {
    const pod = `${name}-1`;
    await eventually(`${pod} is gone`, async () => !(await admin.get(pods, pod, { namespace })));
    if (!isKept) await eventually(`claim of ${pod} is gone`, async () => !(await isThere(`data-${pod}`)));
  }
  for (const { name, isKept } of rows) {
    assert.ok(await isThere(`data-${name}-0`), name);
    assert.equal(await isThere(`data-${name}-1`), isKept, name);
  }
  const [event] = await eventsOf(admin, 'PersistentVolumeClaim', 'data-ours-1');
  assert.match(event ?? '', /^ClaimReleased: deleting this claim, because StatefulSet ours no longer has pod ours-1/);

  const volumes = [{ name: 'data', persistentVolumeClaim: { claimName: 'data-late-1' } }];
  const backup = { metadata: { name: 'backup', namespace }, spec: { ...podSpec, nodeName: 'scaled-a', volumes } };
  await admin.create(pods, backup);
  for (const name of ['late', 'none'])
    await annotate(namespace, `data-${name}-1`, { [onScaleDown.annotation]: 'delete' });
  await eventually('the policy has an effect also later', async () => !(await isThere('data-none-1')));
  assert.ok(await isThere('data-late-1'), 'another pod uses it');
  await admin.delete(pods, 'backup', { namespace });
  await eventually('its last user is gone', async () => !(await isThere('data-late-1')));
});
