import assert from 'node:assert/strict';
import { after, type TestContext, test } from 'node:test';
import { stringify } from 'yaml';
import { logicalVolumes } from '../../src/api/logical-volume.ts';
import { driverName, topologyKey } from '../../src/api/names.ts';
import { isOver, type VolumeMoveStatus, volumeMoves } from '../../src/api/volume-move.ts';
import { codeOf } from '../../src/base/errors.ts';
import type { KubeClient } from '../../src/kube/client.ts';
import {
  configMaps,
  nodes,
  persistentVolumeClaims,
  persistentVolumes,
  storageClasses,
} from '../../src/kube/resource.ts';
import { namespaces } from '../../src/kube/testing/resources.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { InstalledChart } from '../chart/installed-chart.ts';
import { connect, newNamespace, withToken } from './api-server.ts';
import { leadMoves } from './lead-moves.ts';
import { claimSpec, Machines } from './machines.ts';
import { createLogicalVolume, createPersistentVolume } from './removed-nodes.ts';
import { room } from './simulated-nodes.ts';

/** The chart's permissions and policies; a victim and a tenant who may do everything in a namespace of their own. */
const chart = await InstalledChart.start();
const { admin, cluster } = chart.api;
const controller = await chart.clientOf('moorage-controller');
const machines = new Machines(admin, { provisions: false });
after(() => machines.stop());
const finalizer = 'moorage.dev/volume-move';
const [a, b] = ['node-a', 'node-b'] as const;
for (const name of [a, b]) await machines.add(name, room);
await eventually('the nodes are ready', async () =>
  (await admin.list(nodes)).items.every(({ spec }) => (spec?.taints ?? []).length === 0),
);
await admin.create(storageClasses, { metadata: { name: 'local' }, provisioner: driverName });
const victim = await newNamespace(chart.api, 'victim');
const tenant = await newNamespace(chart.api, 'tenant');

const thieving = await ownerOf(tenant);
await eventually('the policy is in effect', async () => {
  const metadata = { generateName: 'probe-', namespace: victim };
  const { name } = (await admin.create(volumeMoves, { metadata, spec: { claimName: 'probe' } })).metadata;
  const isRefused = await writeStatus(admin, victim, name, { message: 'probe' }).then(
    () => false,
    () => true,
  );
  await admin.delete(volumeMoves, name, { namespace: victim });
  return isRefused;
});

/** Somebody who may do everything in the namespace, and nothing outside. */
async function ownerOf(namespace: string): Promise<KubeClient> {
  const name = 'owner';
  const rules = [{ apiGroups: ['*'], resources: ['*'], verbs: ['*'] }];
  const role = { apiVersion: 'rbac.authorization.k8s.io/v1', metadata: { name, namespace } };
  const subjects = [{ kind: 'ServiceAccount', name, namespace }];
  const roleRef = { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name };
  const objects = [
    { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name, namespace } },
    { ...role, kind: 'Role', rules },
    { ...role, kind: 'RoleBinding', subjects, roleRef },
  ];
  await chart.apply(name, objects.map((object) => stringify(object)).join('---\n'));
  const token = await cluster.kubectl('--namespace', namespace, 'create', 'token', name);
  return connect({ after }, await withToken(chart.api.connection, token.trim()));
}

function writeStatus(by: KubeClient, namespace: string, name: string, status: VolumeMoveStatus) {
  return by.patch(volumeMoves, name, { type: 'merge', body: { status } }, { namespace, subresource: 'status' });
}

function setFinalizers(by: KubeClient, namespace: string, name: string, finalizers: readonly string[] | null) {
  return by.patch(volumeMoves, name, { type: 'merge', body: { metadata: { finalizers } } }, { namespace });
}

async function refused(request: Promise<unknown>, reason: RegExp): Promise<void> {
  await assert.rejects(request, (error: Error) => {
    assert.equal(codeOf(error), 'PermissionDenied');
    assert.match(error.message, reason);
    return true;
  });
}

/** A claim with its volume on node a. */
async function claimWithVolume(namespace: string, name: string) {
  const volumeName = `pvc-${namespace}-${name}`;
  const spec = { ...claimSpec('local'), volumeName };
  const claim = await admin.create(persistentVolumeClaims, { metadata: { name, namespace }, spec });
  const handle = await createLogicalVolume(admin, volumeName, a);
  await createPersistentVolume(admin, claim, { name: volumeName, node: a, handle });
  const touch = { metadata: { annotations: { 'example.com/touched': 'true' } } }; // otherwise it is bound 15 s later
  await admin.patch(persistentVolumeClaims, name, { type: 'merge', body: touch }, { namespace });
  await eventually(`${name} is bound`, async () => (await claimNamed(namespace, name))?.status?.phase === 'Bound');
  return { claim, volumeName };
}

const claimNamed = (namespace: string, name: string) => admin.get(persistentVolumeClaims, name, { namespace });
const moveNamed = (namespace: string, name: string) => admin.get(volumeMoves, name, { namespace });

async function ended(namespace: string, name: string) {
  return eventually(`VolumeMove ${name} is over`, async () => {
    const move = await moveNamed(namespace, name);
    return move && isOver(move) && !move.metadata.finalizers && move;
  });
}

/** A claim of the tenant that names the volume of the victim, and says that it is bound to it. */
async function thief(t: TestContext, name: string, volumeName: string) {
  await cluster.controlPlane.controllerManager.pause(); // it would correct the status of the claim
  t.after(() => cluster.controlPlane.controllerManager.resume());
  const claim = await thieving.create(persistentVolumeClaims, {
    metadata: { name, namespace: tenant },
    spec: { ...claimSpec('local'), volumeName },
  });
  const body = { status: { phase: 'Bound', capacity: { storage: '1Gi' } } };
  const options = { namespace: tenant, subresource: 'status' } as const;
  await thieving.patch(persistentVolumeClaims, name, { type: 'merge', body }, options);
  return claim;
}

test('a claim that only names the volume of another claim does not move it', async (t) => {
  const { volumeName } = await claimWithVolume(victim, 'named');
  const before = await admin.get(logicalVolumes, volumeName);
  await thief(t, 'named', volumeName);
  leadMoves(t, controller, admin);
  await thieving.create(volumeMoves, { metadata: { name: 'named', namespace: tenant }, spec: { claimName: 'named' } });
  const { status } = await ended(tenant, 'named');
  assert.equal(status?.phase, 'Failed');
  assert.match(status?.message ?? '', /PersistentVolume pvc-victim-named is not bound to claim tenant\/named/);
  assert.deepEqual(await admin.get(logicalVolumes, volumeName), before);
  assert.deepEqual(
    (await admin.list(logicalVolumes)).items.map(({ metadata }) => metadata.name),
    [volumeName],
  );
});

test('a move that began with the volume of another claim, before that was checked, ends without touching it', async (t) => {
  const { volumeName } = await claimWithVolume(victim, 'taken');
  const before = await admin.get(logicalVolumes, volumeName);
  const volume = await admin.get(persistentVolumes, volumeName);
  const claim = await thief(t, 'taken', volumeName);
  for (const phase of ['Copying', 'Stopping', 'Freezing'] as const) {
    const name = phase.toLowerCase();
    await controller.create(volumeMoves, {
      metadata: { name, namespace: tenant, finalizers: [finalizer] },
      spec: { claimName: 'taken' },
    });
    const status: VolumeMoveStatus = {
      ...{ phase, claimUID: claim.metadata.uid, persistentVolume: volumeName, startedAt: '2026-01-01T00:00:00Z' },
      ...{ sourceNode: a, sourceVolume: volumeName, targetNode: b, targetVolume: `${volumeName}-x`, size: '1Gi' },
      ...(phase !== 'Copying' && { source: { fenced: true, readOnly: phase === 'Freezing' } }),
    };
    await writeStatus(controller, tenant, name, status);
  }
  leadMoves(t, controller, admin);
  for (const name of ['copying', 'stopping', 'freezing']) {
    const { status } = await ended(tenant, name);
    assert.equal(status?.conditions?.[0]?.reason, 'VolumeReplaced', name);
  }
  assert.deepEqual(await admin.get(logicalVolumes, volumeName), before);
  assert.deepEqual((await admin.get(persistentVolumes, volumeName))?.spec, volume?.spec);
});

test('a tenant who overwrites the status of a move does not get a PersistentVolume created', async (t) => {
  const { claim } = await claimWithVolume(tenant, 'root');
  leadMoves(t, controller, admin);
  await thieving.create(volumeMoves, { metadata: { name: 'root', namespace: tenant }, spec: { claimName: 'root' } });
  const target = await eventually('the target is requested', async () => {
    const { targetVolume = '' } = (await moveNamed(tenant, 'root'))?.status ?? {};
    return targetVolume !== '' && admin.get(logicalVolumes, targetVolume);
  });
  const { name: volumeName, uid: volumeID } = target.metadata;
  const created = { status: { volumeID, currentSize: '1Gi' } };
  await admin.patch(logicalVolumes, volumeName, { type: 'merge', body: created }, { subresource: 'status' });
  await eventually('it copies', async () => (await moveNamed(tenant, 'root'))?.status?.phase === 'Copying');
  const source = await admin.get(logicalVolumes, 'pvc-tenant-root');
  const { uid } = (await moveNamed(tenant, 'root'))?.metadata ?? {};
  assert.deepEqual(Object.keys(source?.metadata.annotations ?? {}), [`moving.moorage.dev/${uid}`]);

  const hostile = statusThatSaves({ name: 'root', uid: claim.metadata.uid, source: { hostPath: { path: '/' } } });
  const onlyMoorage = /only Moorage writes the status of a VolumeMove/;
  for (const by of [thieving, admin]) await refused(writeStatus(by, tenant, 'root', hostile), onlyMoorage);
  assert.equal((await moveNamed(tenant, 'root'))?.status?.phase, 'Copying');
  assert.equal(await admin.get(persistentVolumes, 'evil'), undefined);
});

/** Of a move of this claim that is about to restore a PersistentVolume named `evil`. */
function statusThatSaves(options: {
  readonly name: string;
  readonly uid: string;
  readonly source: object;
  readonly sourceVolume?: string;
  readonly nodeLabel?: string;
}): VolumeMoveStatus {
  const { name, uid, source, sourceVolume = 'none', nodeLabel = topologyKey } = options;
  const expression = { key: nodeLabel, operator: 'In', values: [a] };
  const manifest = {
    metadata: { name: 'evil' },
    spec: {
      ...{ accessModes: ['ReadWriteOnce'], capacity: { storage: '1Gi' }, ...source },
      claimRef: { namespace: tenant, name, uid },
      nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions: [expression] }] } },
    },
  };
  const lastTransitionTime = '2026-01-01T00:00:00Z';
  const switched = { type: 'Switched', status: 'True', reason: 'Committed', message: '', lastTransitionTime } as const;
  return {
    ...{ phase: 'Aborting', claimUID: uid, persistentVolume: 'evil', sourceVolume, sourceNode: a },
    ...{ conditions: [switched], manifest: JSON.stringify(manifest), verdict: { round: 1, bytes: 1, sha256: '' } },
  };
}

test('the controller creates no PersistentVolume from a status that a tenant wrote before the policy', async (t) => {
  const { volumeName } = await claimWithVolume(victim, 'secret');
  const before = await admin.get(logicalVolumes, volumeName);
  const { csi } = (await admin.get(persistentVolumes, volumeName))?.spec ?? {};
  const ofVictim = { source: { csi }, refusal: /LogicalVolume pvc-victim-secret, which does not belong to this move/ };
  const attempts = {
    directory: {
      source: { hostPath: { path: '/' } },
      refusal: /status.manifest is not the PersistentVolume of its claim/,
    },
    secret: ofVictim,
    'as-source': { ...ofVictim, sourceVolume: volumeName },
    'by-host': { ...ofVictim, nodeLabel: 'kubernetes.io/hostname' },
  };
  for (const [name, { refusal: _, ...hostile }] of Object.entries(attempts)) {
    const { claim } = await claimWithVolume(tenant, name);
    const metadata = { name, namespace: tenant, finalizers: [finalizer] };
    await controller.create(volumeMoves, { metadata, spec: { claimName: name } });
    await writeStatus(controller, tenant, name, statusThatSaves({ name, uid: claim.metadata.uid, ...hostile }));
  }
  leadMoves(t, controller, admin);
  for (const [name, { refusal }] of Object.entries(attempts)) {
    await eventually(`the controller has refused ${name}`, async () =>
      refusal.test((await moveNamed(tenant, name))?.status?.message ?? ''),
    );
  }
  assert.equal(await admin.get(persistentVolumes, 'evil'), undefined);
  assert.deepEqual(await admin.get(logicalVolumes, volumeName), before, 'nothing is marked');
});

test('a tenant can neither request a copy nor set or remove the finalizer of a move', async () => {
  const place = { namespace: tenant };
  const create = (by: KubeClient, name: string, spec: object, finalizers: readonly string[] = []) =>
    by.create(volumeMoves, {
      metadata: { name, ...place, finalizers: [...finalizers] },
      spec: { claimName: 'c', ...spec },
    });
  await refused(create(thieving, 'fills', { fill: 'pvc-victim-named' }), /only Moorage sets spec.fill/);
  await refused(create(thieving, 'keeps', {}, [finalizer]), /only Moorage sets and removes the finalizer/);
  await create(thieving, 'plain', {}, ['example.com/theirs']);
  await refused(setFinalizers(thieving, tenant, 'plain', [finalizer]), /only Moorage sets and removes the finalizer/);
  await setFinalizers(thieving, tenant, 'plain', null);
  await create(controller, 'protected', { fill: 'x' }, [finalizer]);
  for (const by of [thieving, admin]) {
    await refused(setFinalizers(by, tenant, 'protected', null), /only Moorage sets and removes the finalizer/);
  }
  await setFinalizers(thieving, tenant, 'protected', ['example.com/theirs', finalizer]);
  await thieving.patch(
    volumeMoves,
    'protected',
    { type: 'merge', body: { metadata: { annotations: { 'moorage.dev/abort': 'true' }, labels: { a: 'b' } } } },
    place,
  );
  await setFinalizers(controller, tenant, 'protected', null);
});

test('without a controller, an administrator removes the finalizer of a deleted move, and a tenant cannot', async () => {
  const place = { namespace: tenant };
  await controller.create(volumeMoves, {
    metadata: { name: 'abandoned', ...place, finalizers: [finalizer] },
    spec: { claimName: 'c' },
  });
  await writeStatus(controller, tenant, 'abandoned', { phase: 'Switching', manifest: '{' });
  await thieving.delete(volumeMoves, 'abandoned', place);
  await refused(
    setFinalizers(thieving, tenant, 'abandoned', null),
    /may update volumemoves\/finalizers in all namespaces/,
  );
  await setFinalizers(admin, tenant, 'abandoned', null);
  assert.equal(await moveNamed(tenant, 'abandoned'), undefined);
});

test('without a controller, Kubernetes deletes moves in every way', async () => {
  const namespace = await newNamespace(chart.api, 'leaving');
  const owned = async (name: string) => {
    const { uid } = (await admin.create(volumeMoves, { metadata: { name, namespace }, spec: { claimName: 'c' } }))
      .metadata;
    const owner = { apiVersion: 'moorage.dev/v1alpha1', kind: 'VolumeMove', name, uid, blockOwnerDeletion: true };
    await admin.create(configMaps, { metadata: { name, namespace, ownerReferences: [owner] } });
  };
  for (const cascade of ['foreground', 'orphan', 'background']) {
    await owned(cascade);
    await cluster.kubectl('-n', namespace, 'delete', 'volumemove', cascade, `--cascade=${cascade}`);
    assert.equal(await moveNamed(namespace, cascade), undefined, cascade);
    if (cascade === 'orphan') continue;
    await eventually('its dependent is deleted', async () => !(await admin.get(configMaps, cascade, { namespace })));
  }
  const orphan = await admin.get(configMaps, 'orphan', { namespace });
  assert.deepEqual(orphan?.metadata.ownerReferences ?? [], []);

  await owned('left');
  const metadata = { name: 'protected', namespace, finalizers: [finalizer] };
  await controller.create(volumeMoves, { metadata, spec: { claimName: 'c' } });
  await cluster.kubectl('-n', namespace, 'delete', 'volumemove', 'protected', '--cascade=foreground', '--wait=false');
  await eventually('only our finalizer is left', async () => {
    const { finalizers } = (await moveNamed(namespace, 'protected'))?.metadata ?? {};
    return finalizers?.length === 1 && finalizers[0] === finalizer;
  });
  await cluster.kubectl('delete', 'namespace', namespace, '--wait=false');
  await eventually('the other one is deleted', async () => !(await moveNamed(namespace, 'left')));
  await setFinalizers(admin, namespace, 'protected', null);
  await eventually('the namespace is deleted', async () => !(await admin.get(namespaces, namespace)));
});
