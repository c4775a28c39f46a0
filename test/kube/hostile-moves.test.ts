import assert from 'node:assert/strict';
import { after, type TestContext, test } from 'node:test';
import { logicalVolumes } from '../../src/api/logical-volume.ts';
import { driverName } from '../../src/api/names.ts';
import { isOver, type VolumeMoveStatus, volumeMoves } from '../../src/api/volume-move.ts';
import { nodes, persistentVolumeClaims, persistentVolumes, storageClasses } from '../../src/kube/resource.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { InstalledChart } from '../chart/installed-chart.ts';
import { newNamespace } from './api-server.ts';
import { leadMoves } from './lead-moves.ts';
import { claimSpec, Machines } from './machines.ts';
import { createLogicalVolume, createPersistentVolume } from './removed-nodes.ts';
import { room } from './simulated-nodes.ts';

/** The chart's rights and policies; a victim and a tenant who may do everything in a namespace of their own. */
const chart = await InstalledChart.start();
const { admin, cluster } = chart.api;
const controller = await chart.clientOf('moorage-controller');
const machines = new Machines(admin, { provisions: false });
after(() => machines.stop());
const [a, b] = ['node-a', 'node-b'] as const;
for (const name of [a, b]) await machines.add(name, room);
await eventually('the nodes are ready', async () =>
  (await admin.list(nodes)).items.every(({ spec }) => (spec?.taints ?? []).length === 0),
);
await admin.create(storageClasses, { metadata: { name: 'local' }, provisioner: driverName });
const victim = await newNamespace(chart.api, 'victim');
const tenant = await newNamespace(chart.api, 'tenant');

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
  const claim = await admin.create(persistentVolumeClaims, {
    metadata: { name, namespace: tenant },
    spec: { ...claimSpec('local'), volumeName },
  });
  const body = { status: { phase: 'Bound', capacity: { storage: '1Gi' } } };
  await admin.patch(
    persistentVolumeClaims,
    name,
    { type: 'merge', body },
    { namespace: tenant, subresource: 'status' },
  );
  return claim;
}

test('a claim that only names the volume of another claim does not move it', async (t) => {
  const { volumeName } = await claimWithVolume(victim, 'named');
  const before = await admin.get(logicalVolumes, volumeName);
  await thief(t, 'named', volumeName);
  leadMoves(t, controller, admin);
  await admin.create(volumeMoves, { metadata: { name: 'named', namespace: tenant }, spec: { claimName: 'named' } });
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
    await admin.create(volumeMoves, {
      metadata: { name, namespace: tenant, finalizers: ['moorage.dev/volume-move'] },
      spec: { claimName: 'taken' },
    });
    const status: VolumeMoveStatus = {
      ...{ phase, claimUID: claim.metadata.uid, persistentVolume: volumeName, startedAt: '2026-01-01T00:00:00Z' },
      ...{ sourceNode: a, sourceVolume: volumeName, targetNode: b, targetVolume: `${volumeName}-x`, size: '1Gi' },
      ...(phase !== 'Copying' && { source: { fenced: true, readOnly: phase === 'Freezing' } }),
    };
    const options = { namespace: tenant, subresource: 'status' } as const;
    await controller.patch(volumeMoves, name, { type: 'merge', body: { status } }, options);
  }
  leadMoves(t, controller, admin);
  for (const name of ['copying', 'stopping', 'freezing']) {
    const { status } = await ended(tenant, name);
    assert.equal(status?.conditions?.[0]?.reason, 'VolumeReplaced', name);
  }
  assert.deepEqual(await admin.get(logicalVolumes, volumeName), before);
  assert.deepEqual((await admin.get(persistentVolumes, volumeName))?.spec, volume?.spec);
});
