import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { logicalVolumes } from '../../src/api/logical-volume.ts';
import { driverName, topologyKey } from '../../src/api/names.ts';
import { isOver, type MovePhase, volumeMoves } from '../../src/api/volume-move.ts';
import { systemClock } from '../../src/base/clock.ts';
import { runCaptured } from '../../src/base/testing/run-captured.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import { CrossNodeCopies } from '../../src/controller/volumes/cross-node-copies.ts';
import { LogicalVolumeObjects } from '../../src/controller/volumes/logical-volume-objects.ts';
import { LogicalVolumeStore } from '../../src/controller/volumes/logical-volume-store.ts';
import type { KubeClient } from '../../src/kube/client.ts';
import { Informer } from '../../src/kube/informer.ts';
import {
  affinityValues,
  type KubeObject,
  nodes,
  persistentVolumeClaims,
  persistentVolumes,
  pods,
  type Resource,
  storageClasses,
} from '../../src/kube/resource.ts';
import { kubectlMoorage } from '../../src/plugin/program.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { newNamespace, startApiServer } from './api-server.ts';
import { leadMoves } from './lead-moves.ts';
import { createSet } from './machines.ts';
import { eventsOf } from './removed-nodes.ts';
import { room, simulatedNodes } from './simulated-nodes.ts';

const api = await startApiServer();
const { admin, cluster } = api;
await cluster.kubectl('apply', `-f${join(import.meta.dirname, '..', '..', 'deploy', 'crd.yaml')}`);
await admin.create(storageClasses, {
  metadata: { name: 'local' },
  provisioner: driverName,
  volumeBindingMode: 'WaitForFirstConsumer',
});

const plugin = kubectlMoorage({ columns: undefined, colours: false });
const kubectlMoorageOf = (...words: string[]) =>
  runCaptured(plugin, words, { env: { KUBECONFIG: cluster.kubeconfig } });

/** Two nodes, and a StatefulSet with one pod and its volumes on the first of them. */
async function statefulSet(t: TestContext, namespace: string, claims?: readonly string[]) {
  await newNamespace(api, namespace);
  const { machines, movers } = simulatedNodes(t, admin);
  const [a, b]: [string, string] = [`${namespace}-a`, `${namespace}-b`];
  await machines.add(a, room);
  await createSet(admin, namespace, 'db', 'local', claims ? { claims } : {});
  const claim = await eventually('the claim is bound', async () => {
    const found = await admin.get(persistentVolumeClaims, 'data-db-0', { namespace });
    return found?.status?.phase === 'Bound' && found;
  });
  await eventually('its pod is there', async () => {
    return (await admin.get(pods, 'db-0', { namespace }))?.spec?.nodeName === a;
  });
  await machines.add(b, room);
  const isTainted = async () => ((await admin.get(nodes, b))?.spec?.taints ?? []).length > 0;
  await eventually(`${b} is ready`, async () => !(await isTainted()));
  const phases = phasesOf(t, claim.spec?.volumeName ?? '');
  return { namespace, a, b, claim, volumeName: claim.spec?.volumeName ?? '', machines, movers, phases };
}

/** All phases of a PersistentVolume that anybody could see. */
function phasesOf(t: TestContext, name: string): ReadonlySet<string> {
  const seen = new Set<string>();
  const fieldSelector = `metadata.name=${name}`;
  const volumes = new Informer({
    client: admin,
    resource: persistentVolumes,
    fieldSelector,
    clock: systemClock,
    log: silentLog,
  });
  volumes.onChange(({ object }) => seen.add(object.status?.phase ?? ''));
  volumes.start();
  t.after(() => volumes.stop());
  return seen;
}

async function createMove(namespace: string, name: string): Promise<void> {
  await admin.create(volumeMoves, { metadata: { name, namespace }, spec: { claimName: 'data-db-0' } });
}

const moveOf = async (namespace: string, name: string) => {
  const move = await admin.get(volumeMoves, name, { namespace });
  if (!move) throw new Error(`there is no VolumeMove ${name}`);
  return move;
};

async function reaches(namespace: string, name: string, phase: MovePhase) {
  const explain = () => cluster.kubectl('-n', namespace, 'get', 'volumemoves,pods,pvc,pv', '-o', 'wide');
  return eventually(
    `VolumeMove ${name} is ${phase}`,
    async () => {
      const move = await moveOf(namespace, name);
      if (isOver(move) && move.status?.phase !== phase) throw new Error(`it is ${JSON.stringify(move.status)}`);
      return move.status?.phase === phase && move;
    },
    { explain },
  );
}

/** The claim is bound as before, and its pod is on the node that has the volume. */
async function isOn(namespace: string, node: string, { uid, volumeName }: { uid: string; volumeName: string }) {
  const volume = await admin.get(persistentVolumes, volumeName);
  assert.deepEqual(volume && affinityValues(volume, topologyKey), [node]);
  assert.equal(volume?.spec?.persistentVolumeReclaimPolicy, 'Delete');
  const { items } = await admin.list(logicalVolumes, {
    fieldSelector: `status.volumeID=${volume?.spec?.csi?.volumeHandle}`,
  });
  assert.deepEqual(
    items.map(({ spec, metadata }) => [spec.nodeName, metadata.deletionTimestamp]),
    [[node, undefined]],
  );
  await eventually(`claim and pod are on ${node}`, async () => {
    const claim = await admin.get(persistentVolumeClaims, 'data-db-0', { namespace });
    assert.equal(claim?.metadata.uid, uid);
    assert.equal(claim?.spec?.volumeName, volumeName);
    const pod = await admin.get(pods, 'db-0', { namespace });
    return claim?.status?.phase === 'Bound' && claim.status.capacity && pod?.spec?.nodeName === node;
  });
}

test('a claim and its pod move to another node; the claim stays, and the source is removed last', async (t) => {
  const { namespace, a, b, claim, volumeName, movers, phases } = await statefulSet(t, 'whole');
  const before = await admin.get(persistentVolumes, volumeName);
  leadMoves(t, admin);
  const plan = await kubectlMoorageOf('evacuate', a, '--plan');
  assert.match(plan, new RegExp(`whole/data-db-0 +${b} +1 GiB`));
  await admin.create(persistentVolumeClaims, {
    metadata: { name: 'unbound', namespace },
    spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } }, storageClassName: 'local' },
  });
  const refused = (reason: RegExp, ...words: string[]) =>
    assert.rejects(kubectlMoorageOf('migrate', '-n', namespace, ...words), reason);
  await refused(/there is no node nowhere/, 'pvc/data-db-0', '--to', 'nowhere');
  await refused(/claim whole\/data-db-0 cannot move: its volume is on node whole-a already/, 'data-db-0', '--to', a);
  await refused(/claim whole\/unbound cannot move: it is not bound to a volume/, 'pvc/unbound');
  assert.deepEqual((await admin.list(volumeMoves, { namespace })).items, []);
  const output = await kubectlMoorageOf('migrate', 'pod/db-0', '-n', namespace, '--to', b);
  assert.match(
    output,
    /^whole\/data-db-0: Done, moved from node whole-a to node whole-b; its pods could not use it for \d+ s$/,
  );
  assert.match(await kubectlMoorageOf('moves', '-n', namespace), /data-db-0 +whole-a +whole-b +1 GiB +Done/);
  const [{ metadata, status } = { metadata: { name: '' } }] = (await admin.list(volumeMoves, { namespace })).items;
  assert.deepEqual([status?.sourceNode, status?.targetNode, status?.verdict?.bytes], [a, b, 4096]);
  assert.ok(status?.startedAt && status.stoppedAt && status.openedAt && status.completedAt);
  await isOn(namespace, b, { uid: claim.metadata.uid, volumeName });
  assert.deepEqual(movers.removed, [volumeName]);
  assert.ok(!phases.has('Released'), [...phases].join());

  const after = await admin.get(persistentVolumes, volumeName);
  const ignoring = ({ spec }: NonNullable<typeof after>) => ({ ...spec, csi: 0, nodeAffinity: 0, claimRef: 0 });
  assert.deepEqual(after && ignoring(after), before && ignoring(before));
  const target = await admin.get(logicalVolumes, status?.targetVolume ?? '');
  assert.equal(target?.metadata.annotations?.['moorage.dev/move'], undefined);
  assert.equal(after?.spec?.csi?.volumeHandle, target?.status?.volumeID);

  const events = await eventually('its end is reported', async () => {
    const reported = await eventsOf(admin, 'PersistentVolumeClaim', 'data-db-0');
    return reported.length > 1 && reported;
  });
  assert.equal(events.length, 2);
  assert.equal(events[0], `MoveStarted: copying the volume from node ${a} to node ${b}`);
  assert.match(
    events[1] ?? '',
    /^VolumeMoved: moved from node whole-a to node whole-b; it could not be used for \d+ s$/,
  );
  assert.ok((await eventsOf(admin, 'Pod', 'db-0')).some((event) => event.startsWith('VolumeMoving: ')));
  await eventually('the move is released', async () => !(await moveOf(namespace, metadata.name)).metadata.finalizers);
});

test('whichever write of the switch is the last one of a controller, the next one goes on', async (t) => {
  const { namespace, a, b, claim, volumeName, phases } = await statefulSet(t, 'crashes');
  let [from, to] = [a, b];
  for (let survived = 0; ; survived++) {
    const { client, writes } = mortalInSwitch(admin, survived);
    const endDying = leadMoves(t, client, admin);
    const name = `move-${survived}`;
    await createMove(namespace, name);
    const isDead = () => writes() > survived;
    await eventually(
      'it dies or is done',
      async () => isDead() || (await moveOf(namespace, name)).status?.phase === 'Done',
    );
    const died = isDead();
    await endDying();
    const end = leadMoves(t, admin);
    await reaches(namespace, name, 'Done');
    await isOn(namespace, to, { uid: claim.metadata.uid, volumeName });
    await end();
    [from, to] = [to, from];
    if (!died) break;
  }
  assert.ok(!phases.has('Released'), [...phases].join());
});

/** Like `mortal`, but only writes from the first one of the PersistentVolume on count, until the target is opened. */
function mortalInSwitch(client: KubeClient, survived: number) {
  let count = 0;
  const isWrite = (name: string | symbol) => ['create', 'patch', 'delete'].includes(String(name));
  const proxy = new Proxy(client, {
    get(target, name) {
      return (...args: unknown[]) => {
        const [resource, , patch] = args as [Resource<KubeObject>, unknown, { body?: { status?: { phase?: string } } }];
        const isSwitch =
          isWrite(name) && resource.kind !== 'Event' && (count > 0 || resource.kind === 'PersistentVolume');
        const isOpened = patch?.body?.status?.phase === 'Cleaning';
        if (isSwitch && !isOpened && count <= survived) count += 1;
        if (count > survived && !isOpened) throw new Error('the process was killed');
        return (Reflect.get(target, name) as (...args: unknown[]) => unknown).apply(target, args);
      };
    },
  });
  return { client: proxy, writes: () => count };
}

test('an aborted move leaves everything as it was, and one that waits says for what', async (t) => {
  const { namespace, a, claim, volumeName, movers } = await statefulSet(t, 'aborts');
  const before = await admin.get(persistentVolumes, volumeName);
  const pod = await admin.get(pods, 'db-0', { namespace });
  const budget = {
    group: 'policy',
    version: 'v1',
    plural: 'poddisruptionbudgets',
    kind: 'PodDisruptionBudget',
    namespaced: true,
  };
  const spec = { minAvailable: 1, selector: { matchLabels: { app: 'db' } } };
  await admin.create(budget, { metadata: { name: 'db', namespace }, spec } as KubeObject);
  const running = { conditions: [{ type: 'Ready', status: 'True' }], phase: 'Running' };
  await admin.patch(pods, 'db-0', { type: 'merge', body: { status: running } }, { namespace, subresource: 'status' });
  leadMoves(t, admin);
  await createMove(namespace, 'go');
  await eventually('the budget is named', async () =>
    /pod db-0 cannot be stopped yet: .*disruption budget/.test((await moveOf(namespace, 'go')).status?.message ?? ''),
  );
  await createMove(namespace, 'second');
  assert.match(
    (await reaches(namespace, 'second', 'Failed')).status?.message ?? '',
    /VolumeMove go moves this claim already/,
  );

  const output = await kubectlMoorageOf('abort', 'data-db-0', '-n', namespace);
  assert.equal(output, 'aborts/data-db-0: Aborted, somebody has aborted it');
  const { status } = await moveOf(namespace, 'go');
  assert.deepEqual(
    status?.conditions?.map(({ type, status, reason }) => [type, status, reason]),
    [['Succeeded', 'False', 'Requested']],
  );
  await isOn(namespace, a, { uid: claim.metadata.uid, volumeName });
  assert.deepEqual(movers.removed, [status?.targetVolume]);
  assert.equal((await admin.get(persistentVolumes, volumeName))?.metadata.uid, before?.metadata.uid);
  assert.equal((await admin.get(pods, 'db-0', { namespace }))?.metadata.uid, pod?.metadata.uid);
});

/**
 * A CSI store on this cluster; `copy` requests a volume on node b with the data of the claim's volume on node a. `isCopying`
 * resolves when a call waits for that data.
 */
function storeOf(t: TestContext, namespace: string, source: { id: string; a: string; b: string }) {
  const common = { client: admin, clock: systemClock, log: silentLog };
  const watched = new Informer({ ...common, resource: logicalVolumes });
  const moves = new Informer({ ...common, resource: volumeMoves });
  for (const watch of [watched, moves]) {
    watch.start();
    t.after(() => watch.stop());
  }
  const objects = new LogicalVolumeObjects({ client: admin, watched });
  const waits = Promise.withResolvers<void>();
  const until: typeof objects.until = (...request) => {
    waits.resolve();
    return objects.until(...request);
  };
  const copies = new CrossNodeCopies({
    client: admin,
    objects: { create: objects.create.bind(objects), remove: objects.remove.bind(objects), until },
    moves,
  });
  const store = new LogicalVolumeStore({ objects, copies, clock: systemClock });
  const copy = (claim: string, signal: AbortSignal, from = source.id) =>
    store.create(
      {
        ...{ name: `pvc-${namespace}-${claim}`, nodeNames: [source.b], sourceNode: source.a },
        ...{ deviceClass: '', lvcreateOptionClass: '', isEncrypted: false, sizeBytes: 2n * 1024n ** 3n },
        ...{ claim: `${namespace}/${claim}`, source: { kind: 'volume', id: from } },
      },
      signal,
    );
  const newClaim = (name: string) =>
    admin.create(persistentVolumeClaims, {
      metadata: { name, namespace },
      spec: { accessModes: ['ReadWriteOnce'], storageClassName: '', resources: { requests: { storage: '2Gi' } } },
    });
  return { copy, newClaim, isCopying: waits.promise };
}

test('a claim gets a copy of a volume on another node, and nothing is left if it is deleted meanwhile', async (t) => {
  const { namespace, a, b, volumeName, movers } = await statefulSet(t, 'copied');
  leadMoves(t, admin);
  const { volumeHandle: id = '' } = (await admin.get(persistentVolumes, volumeName))?.spec?.csi ?? {};
  const { copy, newClaim, isCopying } = storeOf(t, namespace, { id, a, b });
  const { signal } = new AbortController();
  const deadline = new AbortController();
  const nothingLeft = async () => {
    await eventually('the VolumeMove is gone', async () => {
      return (await admin.list(volumeMoves, { namespace })).items.length === 0;
    });
    const { items } = await admin.list(logicalVolumes, { fieldSelector: `spec.nodeName=${b}` });
    assert.deepEqual(items, []);
  };

  await newClaim('clone');
  movers.silentIn = 'Copying';
  const first = assert.rejects(copy('clone', deadline.signal), {
    code: 'DeadlineExceeded',
    message: new RegExp(`^volume ${id} is being copied from node ${a} to node ${b}: .*; the claim is bound when`),
  });
  await isCopying;
  deadline.abort();
  await first;
  await newClaim('second');
  const second = copy('second', signal);
  const waits = async () => (await admin.get(volumeMoves, `copy-pvc-copied-second`, { namespace }))?.status?.message;
  await eventually('another one waits', async () => /has one move at a time/.test((await waits()) ?? ''));
  await admin.delete(persistentVolumeClaims, 'clone', { namespace });
  await assert.rejects(copy('clone', signal), { code: 'NotFound', message: /claim copied\/clone was deleted/ });
  await eventually('the second one is copied', async () => (await waits())?.startsWith('copies the data'));
  assert.deepEqual(movers.removed, ['pvc-copied-clone']);
  movers.silentIn = undefined;
  const { nodeName, sizeBytes, source } = await second;
  assert.deepEqual([nodeName, sizeBytes, source], [b, 2n * 1024n ** 3n, { kind: 'volume', id }]);
  const filled = await admin.get(logicalVolumes, 'pvc-copied-second');
  assert.equal(filled?.metadata.annotations?.['moorage.dev/move'], undefined);
  assert.equal((await copy('second', signal)).id, filled?.status?.volumeID);
  await admin.delete(logicalVolumes, 'pvc-copied-second');
  await nothingLeft();
  assert.deepEqual(await eventsOf(admin, 'PersistentVolumeClaim', 'second'), [
    `CopyStarted: copying the source from node ${a} to node ${b}`,
    `VolumeCopied: copied from node ${a} to node ${b}`,
  ]);
});

test('if one of two moves of a pod is aborted, so is the other one, and the pod starts where it was', async (t) => {
  const { namespace, a, claim, volumeName, movers } = await statefulSet(t, 'together', ['data', 'wal']);
  movers.silentIn = 'Freezing';
  leadMoves(t, admin);
  const moves = async () => (await admin.list(volumeMoves, { namespace })).items;
  await kubectlMoorageOf('migrate', 'pvc/data-db-0', '-n', namespace, '--wait=false');
  await eventually('the first one waits for the other one', async () => {
    const [first] = await moves();
    return first?.status?.message?.startsWith('cannot begin yet: pod db-0 also uses claim together/wal-db-0');
  });
  await kubectlMoorageOf('migrate', 'pvc/wal-db-0', '-n', namespace, '--wait=false');
  await eventually('both are Freezing', async () => {
    const phases = (await moves()).map(({ status }) => status?.phase);
    return phases.length === 2 && phases.every((phase) => phase === 'Freezing');
  });
  await kubectlMoorageOf('abort', 'data-db-0', '-n', namespace);
  const ended = await eventually('both are over', async () => {
    const found = await moves();
    return found.every(isOver) && found;
  });
  const reasons = ended.map(({ spec, status }) => {
    const { reason } = status?.conditions?.find(({ type }) => type === 'Succeeded') ?? {};
    return `${spec.claimName} ${status?.phase} ${reason}`;
  });
  assert.deepEqual(reasons.sort(), ['data-db-0 Aborted Requested', 'wal-db-0 Aborted AbortedTogether']);
  await isOn(namespace, a, { uid: claim.metadata.uid, volumeName });
});

test('a target node that is removed before it has opened the volume: the claim returns to the source', async (t) => {
  const { namespace, a, b, claim, volumeName, machines, movers, phases } = await statefulSet(t, 'returns');
  movers.silentIn = 'Opening';
  leadMoves(t, admin);
  await createMove(namespace, 'go');
  await reaches(namespace, 'go', 'Opening');
  machines.forget(b);
  await admin.delete(nodes, b);
  const { status } = await reaches(namespace, 'go', 'Aborted');
  assert.equal(status?.conditions?.find(({ type }) => type === 'Succeeded')?.reason, 'TargetNodeGone');
  await isOn(namespace, a, { uid: claim.metadata.uid, volumeName });
  await eventually('the node is gone', async () => !(await admin.get(nodes, b)));
  assert.ok(!movers.removed.includes(volumeName));
  assert.ok(!phases.has('Released'), [...phases].join());
});
