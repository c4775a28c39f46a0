import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { logicalVolumes } from '../../src/api/logical-volume.ts';
import { driverName, logicalVolume, nodeFinalizer, otherNodeFinalizer, topologyKey } from '../../src/api/names.ts';
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import { type Work, Workers } from '../../src/base/work.ts';
import { annotatedNode } from '../../src/controller/capacity/annotated-capacities.ts';
import { heldClaims } from '../../src/controller/claims/held-claims.ts';
import { watchedClaim } from '../../src/controller/claims/volume-claims.ts';
import { NodeRemoval, nodeRemovals } from '../../src/controller/node-removal/node-removal.ts';
import type { KubeClient } from '../../src/kube/client.ts';
import { Informer } from '../../src/kube/informer.ts';
import { nodes, persistentVolumeClaims, persistentVolumes, pods, storageClasses } from '../../src/kube/resource.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { newNamespace, startApiServer } from './api-server.ts';

const api = await startApiServer();
const { admin, cluster } = api;
const signal = new AbortController().signal;
await cluster.kubectl('apply', `-f${join(import.meta.dirname, '..', '..', 'deploy', 'crd.yaml')}`);
await admin.create(storageClasses, { metadata: { name: 'local' }, provisioner: driverName });

interface Volume {
  readonly node: string;
  readonly namespace: string;
  readonly policy?: 'Delete' | 'Retain';
  /** The uid of its claim. */
  readonly finalizers?: readonly string[];
}

/** Creates a claim, its volume on a node and a pod that uses it, as provisioner, scheduler and kubelet would leave them. */
async function volume(name: string, { node, namespace, policy = 'Delete', finalizers = [] }: Volume): Promise<void> {
  const created = await admin.create(logicalVolumes, {
    metadata: { name, finalizers: [logicalVolume.finalizer] },
    spec: { name, nodeName: node, size: '1Gi' },
  });
  const resources = { requests: { storage: '1Gi' } };
  const claim = await admin.create(persistentVolumeClaims, {
    metadata: { name, namespace, finalizers: [...finalizers] },
    spec: { accessModes: ['ReadWriteOnce'], storageClassName: 'local', volumeName: name, resources },
  });
  const expression = { key: topologyKey, operator: 'In', values: [node] };
  await admin.create(persistentVolumes, {
    metadata: { name },
    spec: {
      accessModes: ['ReadWriteOnce'],
      capacity: { storage: '1Gi' },
      storageClassName: 'local',
      persistentVolumeReclaimPolicy: policy,
      csi: { driver: driverName, volumeHandle: created.metadata.uid },
      claimRef: { namespace, name, uid: claim.metadata.uid },
      nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions: [expression] }] } },
    },
  });
  await admin.create(pods, {
    metadata: { name, namespace },
    spec: {
      nodeName: node,
      automountServiceAccountToken: false,
      containers: [{ name: 'main', image: 'pause' }],
      volumes: [{ name: 'data', persistentVolumeClaim: { claimName: name } }],
    },
  });
}

const node = (name: string) =>
  admin.create(nodes, { metadata: { name, finalizers: [otherNodeFinalizer, nodeFinalizer, 'example.com/theirs'] } });

/** Runs the leader's work until the test ends. */
function lead(t: TestContext, work: Work): void {
  const term = new AbortController();
  const workers = new Workers([work], { clock: systemClock, log: silentLog, random: Math.random });
  const leading = workers.lead(term.signal);
  t.after(async () => {
    term.abort();
    await leading;
  });
}

/** Which of the objects of a name exist and are not being deleted. */
async function left(name: string, namespace: string): Promise<readonly string[]> {
  const found = {
    claim: await admin.get(persistentVolumeClaims, name, { namespace }),
    pod: await admin.get(pods, name, { namespace }),
    volume: await admin.get(persistentVolumes, name),
    logicalVolume: await admin.get(logicalVolumes, name),
  };
  return Object.entries(found).flatMap(([kind, object]) =>
    object && !object.metadata.deletionTimestamp ? [kind] : [],
  );
}

test('deleting a Node deletes its claims, pods and LogicalVolumes, and nothing of other nodes', async () => {
  const namespace = await newNamespace(api, 'shop');
  await node('a');
  await volume('gone', { node: 'a', namespace });
  await volume('kept', { node: 'a', namespace, policy: 'Retain' });
  await volume('elsewhere', { node: 'b', namespace });
  const removal = new NodeRemoval({ client: admin, log: silentLog, keepObjects: false });

  await removal.reconcile('a', signal);
  const all = ['claim', 'pod', 'volume', 'logicalVolume'];
  assert.deepEqual(await left('gone', namespace), all, 'a Node that is not deleted keeps everything');

  await admin.delete(nodes, 'a');
  await removal.reconcile('a', signal);

  assert.deepEqual(await left('gone', namespace), ['volume'], 'the PersistentVolume follows its reclaim policy');
  assert.equal(await admin.get(logicalVolumes, 'gone'), undefined);
  assert.deepEqual(await left('kept', namespace), ['volume', 'logicalVolume'], 'Retain is kept');
  assert.deepEqual(await left('elsewhere', namespace), all);
  assert.deepEqual((await admin.get(nodes, 'a'))?.metadata.finalizers, ['example.com/theirs']);
});

test('the next run recovers from a crash between any two steps', async () => {
  const namespace = await newNamespace(api, 'crashes');
  await node('c');
  for (const name of ['one', 'two']) await volume(name, { node: 'c', namespace });
  await admin.delete(nodes, 'c');
  const steps: string[] = [];
  for (let survived = 0; ; survived++) {
    let writes = 0;
    const step = async <T>(what: string, write: () => Promise<T>): Promise<T> => {
      if (writes++ === survived) throw new Error('a crash');
      steps.push(what);
      return write();
    };
    const client: Pick<KubeClient, 'get' | 'list' | 'patch' | 'delete'> = {
      get: (...args) => admin.get(...args),
      list: (...args) => admin.list(...args),
      patch: (resource, ...rest) => step(`patch ${resource.kind}`, () => admin.patch(resource, ...rest)),
      delete: (resource, ...rest) => step(`delete ${resource.kind}`, () => admin.delete(resource, ...rest)),
    };
    const removal = new NodeRemoval({ client, log: silentLog, keepObjects: false });
    try {
      await removal.reconcile('c', signal);
      break;
    } catch (error) {
      assert.match(String(error), /a crash/);
      assert.ok(survived < 50, 'it never ends');
    }
  }
  assert.deepEqual(await left('one', namespace), ['volume']);
  assert.deepEqual(await left('two', namespace), ['volume']);
  assert.deepEqual((await admin.get(nodes, 'c'))?.metadata.finalizers, ['example.com/theirs']);
  const first = (what: string) => steps.indexOf(what);
  assert.ok(first('delete PersistentVolumeClaim') < first('delete Pod'));
  assert.ok(first('delete Pod') < first('patch LogicalVolume'));
  assert.ok(first('patch LogicalVolume') < first('patch Node'));
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
  const removal = new NodeRemoval({ client: admin, log: silentLog, keepObjects: true });
  lead(t, nodeRemovals({ nodes: watched, removal }));

  await admin.delete(nodes, 'd');
  await watched.until('d', (found) => found !== undefined && !found.isLeaving, AbortSignal.timeout(120_000));

  const isDeleted = (await admin.get(nodes, 'd'))?.metadata.deletionTimestamp !== undefined;
  assert.ok(isDeleted, 'it is still being deleted, and we hold it no more');
  assert.deepEqual(await left('untouched', namespace), ['claim', 'pod', 'volume', 'logicalVolume']);
});

test("TopoLVM's finalizer is removed from a claim that is deleted, by a user or with its Node", async (t) => {
  const namespace = await newNamespace(api, 'from-topolvm');
  const theirs = 'example.com/theirs';
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
  await new NodeRemoval({ client: admin, log: silentLog, keepObjects: false }).reconcile('e', signal);
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
