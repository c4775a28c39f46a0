import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { logicalVolumes } from '../../src/api/logical-volume.ts';
import {
  driverName,
  nodeFinalizer,
  nodeRemovedAnnotation,
  onNodeRemoval,
  otherNodeFinalizer,
  pendingDeletionAnnotation,
} from '../../src/api/names.ts';
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import { annotatedNode } from '../../src/controller/capacity/annotated-capacities.ts';
import { heldClaims } from '../../src/controller/claims/held-claims.ts';
import { watchedClaim } from '../../src/controller/claims/volume-claims.ts';
import { NodeRemoval, nodeRemovals } from '../../src/controller/node-removal/node-removal.ts';
import type { KubeClient } from '../../src/kube/client.ts';
import { Informer } from '../../src/kube/informer.ts';
import { nodes, persistentVolumeClaims, persistentVolumes, pods, storageClasses } from '../../src/kube/resource.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { newNamespace, startApiServer } from './api-server.ts';
import { createVolume, eventsOf, lead, leadRemovals, left, reporting, type VolumeOfTest } from './removed-nodes.ts';

const api = await startApiServer();
const { admin, cluster } = api;
const signal = new AbortController().signal;
await cluster.kubectl('apply', `-f${join(import.meta.dirname, '..', '..', 'deploy', 'crd.yaml')}`);
await admin.create(storageClasses, { metadata: { name: 'local' }, provisioner: driverName });

const theirs = 'example.com/theirs';
const all = ['claim', 'pod', 'volume', 'logicalVolume'];
const volume = (name: string, options: VolumeOfTest) => createVolume(admin, name, options);
const leftOf = (name: string, namespace: string) => left(admin, name, namespace);
const node = (name: string) =>
  admin.create(nodes, { metadata: { name, finalizers: [otherNodeFinalizer, nodeFinalizer, theirs] } });
const isMarked = (annotations: Readonly<Record<string, string>> = {}) =>
  annotations[nodeRemovedAnnotation] !== undefined || annotations[pendingDeletionAnnotation] === 'true';

/** Deletes a Node as Moorage and everybody else are done with it. */
async function removeNode(name: string): Promise<void> {
  await admin.delete(nodes, name);
  const isReleased = async () => isDeepStrictEqual((await admin.get(nodes, name))?.metadata.finalizers, [theirs]);
  await eventually(`Moorage has released ${name}`, isReleased);
  await admin.patch(nodes, name, { type: 'merge', body: { metadata: { finalizers: null } } });
}
const decide = (name: string, namespace: string, word: string) =>
  admin.patch(
    persistentVolumeClaims,
    name,
    { type: 'merge', body: { metadata: { annotations: { [onNodeRemoval.annotation]: word } } } },
    { namespace },
  );
const becomes = (name: string, namespace: string, expected: readonly string[]) =>
  eventually(`of ${name}, ${expected.join(', ') || 'nothing'} is left`, async () =>
    isDeepStrictEqual(await leftOf(name, namespace), expected),
  );

test('deleting a Node deletes its claims, pods and LogicalVolumes, and nothing of other nodes', async () => {
  const namespace = await newNamespace(api, 'shop');
  await node('a');
  await volume('gone', { node: 'a', namespace });
  await volume('kept', { node: 'a', namespace, reclaimPolicy: 'Retain' });
  await volume('elsewhere', { node: 'b', namespace });
  const removal = new NodeRemoval({ ...reporting(admin), keepObjects: false });

  await removal.reconcile('a', signal);
  assert.deepEqual(await leftOf('gone', namespace), all, 'a Node that is not deleted keeps everything');

  await admin.delete(nodes, 'a');
  await removal.reconcile('a', signal);

  assert.deepEqual(await leftOf('gone', namespace), ['volume'], 'the PersistentVolume follows its reclaim policy');
  assert.equal(await admin.get(logicalVolumes, 'gone'), undefined);
  assert.deepEqual(await leftOf('kept', namespace), ['volume', 'logicalVolume'], 'Retain is kept');
  assert.deepEqual(await leftOf('elsewhere', namespace), all);
  assert.deepEqual((await admin.get(nodes, 'a'))?.metadata.finalizers, ['example.com/theirs']);
});

test('the next run recovers from a crash between any two steps', async () => {
  const namespace = await newNamespace(api, 'crashes');
  await node('c');
  for (const name of ['one', 'two']) await volume(name, { node: 'c', namespace });
  await volume('three', { node: 'c', namespace, annotation: 'keep' });
  await volume('four', { node: 'c', namespace, classPolicy: 'wait' });
  await admin.delete(nodes, 'c');
  const steps: string[] = [];
  const unmarked: string[] = [];
  for (let survived = 0; ; survived++) {
    let writes = 0;
    const step = async <T>(what: string, write: () => Promise<T>): Promise<T> => {
      if (writes++ === survived) throw new Error('a crash');
      steps.push(what);
      return write();
    };
    const client: Pick<KubeClient, 'get' | 'list' | 'create' | 'patch' | 'delete'> = {
      get: (...args) => admin.get(...args),
      create: (...args) => admin.create(...args),
      list: (...args) => admin.list(...args),
      patch: (resource, ...rest) => step(`patch ${resource.kind}`, () => admin.patch(resource, ...rest)),
      delete: async (resource, name, ...rest) => {
        const { metadata } = (await admin.get(logicalVolumes, name)) ?? {};
        if (resource.kind === 'PersistentVolumeClaim' && !isMarked(metadata?.annotations)) unmarked.push(name);
        return step(`delete ${resource.kind}`, () => admin.delete(resource, name, ...rest));
      },
    };
    const removal = new NodeRemoval({ ...reporting(admin), client, keepObjects: false });
    try {
      await removal.reconcile('c', signal);
      break;
    } catch (error) {
      assert.match(String(error), /a crash/);
      assert.ok(survived < 50, 'it never ends');
    }
  }
  assert.deepEqual(await leftOf('one', namespace), ['volume']);
  assert.deepEqual(await leftOf('two', namespace), ['volume']);
  assert.deepEqual(await leftOf('three', namespace), ['volume', 'logicalVolume']);
  assert.deepEqual(await leftOf('four', namespace), all);
  assert.deepEqual((await admin.get(nodes, 'c'))?.metadata.finalizers, ['example.com/theirs']);
  assert.deepEqual(
    [...new Set(steps)],
    [
      'patch PersistentVolume',
      'patch LogicalVolume', // the record on those that are kept
      'delete PersistentVolumeClaim',
      'delete Pod',
      'delete LogicalVolume',
      'patch Node',
    ],
  );
});

test('with node cleanup skipped, only the finalizer of the Node is removed, on its watch event', async (t) => {
  const namespace = await newNamespace(api, 'left-alone');
  await node('d');
  await volume('untouched', { node: 'd', namespace });
  const watched = new Informer({
    client: admin,
    resource: nodes,
    project: annotatedNode,
    clock: systemClock,
    log: silentLog,
  });
  watched.start();
  t.after(() => watched.stop());
  const removal = new NodeRemoval({ ...reporting(admin), keepObjects: true });
  lead(t, nodeRemovals({ nodes: watched, removal }));

  await admin.delete(nodes, 'd');
  await watched.until('d', (found) => found !== undefined && !found.isLeaving, AbortSignal.timeout(120_000));

  const isDeleted = (await admin.get(nodes, 'd'))?.metadata.deletionTimestamp !== undefined;
  assert.ok(isDeleted, 'it is still being deleted, and we hold it no more');
  assert.deepEqual(await leftOf('untouched', namespace), ['claim', 'pod', 'volume', 'logicalVolume']);
});

test("TopoLVM's finalizer is removed from a claim that is deleted, by a user or with its Node", async (t) => {
  const namespace = await newNamespace(api, 'from-topolvm');
  await node('e');
  await volume('by-node', { node: 'e', namespace, finalizers: ['topolvm.io/pvc'] });
  const waiting = async (name: string, finalizers: readonly string[]) =>
    admin.create(persistentVolumeClaims, {
      metadata: { name, namespace, finalizers: [...finalizers] },
      spec: { accessModes: ['ReadWriteOnce'], storageClassName: 'none', resources: { requests: { storage: '1Gi' } } },
    });
  await waiting('by-hand', ['topolvm.cybozu.com/pvc', 'topolvm.io/pvc']);
  await waiting('also-held-by-others', ['topolvm.io/pvc', theirs]);
  await waiting('not-deleted', ['topolvm.io/pvc']);

  const claims = new Informer({
    client: admin,
    resource: persistentVolumeClaims,
    project: watchedClaim,
    clock: systemClock,
    log: silentLog,
  });
  claims.start();
  t.after(() => claims.stop());
  lead(t, heldClaims({ client: admin, claims, log: silentLog }));

  await admin.delete(nodes, 'e');
  await new NodeRemoval({ ...reporting(admin), keepObjects: false }).reconcile('e', signal);
  await admin.delete(pods, 'by-node', { namespace, gracePeriodSeconds: 0 }); // there is no kubelet to stop it
  for (const name of ['by-hand', 'also-held-by-others'])
    await admin.delete(persistentVolumeClaims, name, { namespace });

  const found = (name: string) => admin.get(persistentVolumeClaims, name, { namespace });
  for (const name of ['by-node', 'by-hand'])
    await eventually(`${name} is gone`, async () => (await found(name)) === undefined);
  await eventually('only finalizers of others are left', async () =>
    isDeepStrictEqual((await found('also-held-by-others'))?.metadata.finalizers, [theirs]),
  );
  const kept = await found('not-deleted');
  assert.ok(kept?.metadata.finalizers?.includes('topolvm.io/pvc'), 'TopoLVM may take over again');
});

test('a claim is dropped, kept or waits, as it or its class says, and each step is an Event', async (t) => {
  const namespace = await newNamespace(api, 'policies');
  await node('k');
  await volume('dropped', { node: 'k', namespace, classPolicy: 'keep', annotation: 'drop' });
  await volume('saved', { node: 'k', namespace, annotation: 'keep' });
  await volume('saved-by-class', { node: 'k', namespace, classPolicy: 'keep' });
  for (const name of ['undecided', 'later-dropped', 'later-kept', 'later-deleted'])
    await volume(name, { node: 'k', namespace, classPolicy: 'wait' });
  await volume('mistyped', { node: 'k', namespace, annotation: 'Drop' });
  leadRemovals(t, admin);
  await removeNode('k');

  assert.deepEqual(await leftOf('dropped', namespace), ['volume']);
  for (const name of ['saved', 'saved-by-class']) {
    assert.deepEqual(await leftOf(name, namespace), ['volume', 'logicalVolume']);
    assert.equal((await admin.get(persistentVolumes, name))?.spec?.persistentVolumeReclaimPolicy, 'Retain');
  }
  for (const name of ['undecided', 'later-dropped', 'mistyped']) {
    const [claim, , , logicalVolume] = all;
    assert.deepEqual(
      (await leftOf(name, namespace)).filter((kind) => kind !== 'pod'),
      [claim, 'volume', logicalVolume],
    );
  }
  assert.deepEqual(await eventsOf(admin, 'PersistentVolumeClaim', 'saved'), [
    'NodeRemoved: deleting this claim because node k was removed; PersistentVolume saved is retained',
    'VolumeRetained: set PersistentVolume saved to Retain because node k was removed',
  ]);
  assert.deepEqual(await eventsOf(admin, 'Pod', 'dropped'), [
    'NodeRemoved: deleting this pod because its claim was deleted with node k',
  ]);
  const [asked] = await eventsOf(admin, 'PersistentVolumeClaim', 'mistyped');
  assert.match(
    asked ?? '',
    /^InvalidPolicy: moorage\.dev\/on-node-removal is "Drop", not drop, keep or wait; this claim waits/,
  );
  const reasons = async () => new Set((await eventsOf(admin, 'Node', 'k')).map((event) => event.replace(/:.*/, '')));
  await eventually('the end is reported', async () => (await reasons()).has('NodeReleased'));
  assert.deepEqual(
    [...(await reasons())],
    [
      ...['ClaimsReleased', 'ClaimsWaiting', 'NodeReleased', 'PodsDeleted'],
      ...['VolumesGivenUp', 'VolumesKept', 'VolumesRetained'],
    ],
  );

  await decide('later-dropped', namespace, 'drop');
  await decide('later-kept', namespace, 'keep');
  await admin.delete(logicalVolumes, 'later-deleted'); // as csi-provisioner has it deleted after its claim
  await becomes('later-dropped', namespace, ['volume']);
  await becomes('later-kept', namespace, ['volume', 'logicalVolume']);
  assert.equal((await admin.get(persistentVolumes, 'later-kept'))?.spec?.persistentVolumeReclaimPolicy, 'Retain');
  await eventually('its node need not confirm', async () => !(await admin.get(logicalVolumes, 'later-deleted')));
  for (const name of ['undecided', 'mistyped'])
    assert.deepEqual((await leftOf(name, namespace)).includes('claim'), true, 'a missing Node alone decides nothing');
});

test('a new machine under the old name is not mistaken for the old one', async (t) => {
  const namespace = await newNamespace(api, 'same-name');
  await node('n');
  for (const name of ['not-there', 'returned']) await volume(name, { node: 'n', namespace, annotation: 'wait' });
  leadRemovals(t, admin);
  await removeNode('n');
  const record = (await admin.get(logicalVolumes, 'returned'))?.metadata.annotations?.[nodeRemovedAnnotation];
  assert.ok(record);
  const { metadata } = await admin.create(nodes, { metadata: { name: 'n' } });
  assert.notEqual(metadata.uid, record);
  // What the agent of the new machine reports: the one volume is not on its disks, the other is.
  const found = { type: 'merge', body: { metadata: { annotations: { [nodeRemovedAnnotation]: null } } } } as const;
  await admin.patch(logicalVolumes, 'returned', found);
  for (const name of ['not-there', 'returned']) await decide(name, namespace, 'drop');
  const missing = { type: 'merge', body: { status: { missingFrom: metadata.uid } } } as const;
  await admin.patch(logicalVolumes, 'not-there', missing, { subresource: 'status' });

  await becomes('not-there', namespace, ['volume']);
  assert.deepEqual(
    (await leftOf('returned', namespace)).filter((kind) => kind !== 'pod'),
    ['claim', 'volume', 'logicalVolume'],
  );
  await admin.delete(nodes, 'n'); // not by Moorage: the new Node has no finalizer
  await volume('other', { node: 'gone', namespace });
  assert.ok((await leftOf('returned', namespace)).includes('claim'), 'a missing Node alone decides nothing');
});

test('a node that is unreachable or out of service loses no claim', async (t) => {
  const namespace = await newNamespace(api, 'unreachable');
  await node('u');
  await volume('safe', { node: 'u', namespace });
  const before = await admin.get(persistentVolumeClaims, 'safe', { namespace });
  leadRemovals(t, admin);
  const conditions = [{ type: 'Ready', status: 'Unknown', reason: 'NodeStatusUnknown' }];
  await admin.patch(nodes, 'u', { type: 'merge', body: { status: { conditions } } }, { subresource: 'status' });
  const taints = [{ key: 'node.kubernetes.io/out-of-service', value: 'nodeshutdown', effect: 'NoExecute' }];
  await admin.patch(nodes, 'u', { type: 'merge', body: { spec: { taints } } });
  await eventually('Kubernetes has removed its pods', async () => !(await admin.get(pods, 'safe', { namespace })));

  const claim = await admin.get(persistentVolumeClaims, 'safe', { namespace });
  assert.equal(claim?.metadata.uid, before?.metadata.uid);
  assert.equal(claim?.metadata.deletionTimestamp, undefined);
  assert.deepEqual(await leftOf('safe', namespace), ['claim', 'volume', 'logicalVolume']);
});
