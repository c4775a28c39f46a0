import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { StoredLogicalVolume } from '../api/logical-volume.ts';
import { driverName } from '../api/names.ts';
import { ManualClock } from '../base/testing/manual-clock.ts';
import { exposition } from '../metrics/metric.ts';
import { orphanMetric, ourPersistentVolume } from './orphaned-objects.ts';

const minuteMs = 60_000;
const autoRelease = { 'local-pv.k8s.portavita.net/autoRelease': 'true' };
/** The creation time of all objects in the in-memory API server. */
const creationTimestamp = '2026-01-01T00:00:00Z';

function volume(name: string, status: StoredLogicalVolume['status'] = { volumeID: name }, nodeName = 'a') {
  const metadata = { name, uid: name, resourceVersion: '1', creationTimestamp };
  return { metadata, spec: { name, nodeName, size: '1Gi' }, status } as StoredLogicalVolume;
}

function persistentVolume(name: string, driver: string, phase: string) {
  const metadata = { name, uid: name, resourceVersion: '1', creationTimestamp };
  const spec = { csi: { driver, volumeHandle: name }, persistentVolumeReclaimPolicy: 'Retain' };
  return ourPersistentVolume({ metadata, spec, status: { phase } });
}

function staticVolume(name: string, node: string, phase: string, annotations: Record<string, string> = {}) {
  const prefix = 'local-pv.k8s.portavita.net/';
  const metadata = {
    ...{ name, uid: name, resourceVersion: '1', creationTimestamp, finalizers: ['moorage.dev/local-pv'] },
    annotations: { [`${prefix}node`]: node, ...annotations },
  };
  return { handle: '', asStatic: { metadata, status: { phase } } };
}

test('orphans of each kind are counted, new ones not yet, and none before all objects are known', async () => {
  const persistentVolumes = [
    ...[persistentVolume('used', driverName, 'Bound'), persistentVolume('kept', driverName, 'Released')],
    ...[persistentVolume('bare', driverName, 'Bound'), persistentVolume('foreign', 'other.example', 'Released')],
    ...[staticVolume('static', 'a', 'Bound'), staticVolume('static-far', 'gone', 'Bound')],
    ...[staticVolume('static-kept', 'a', 'Released'), staticVolume('reused', 'a', 'Released', autoRelease)],
  ];
  const all = [
    ...[volume('used'), volume('kept'), volume('no-pv'), volume('far', { volumeID: 'far' }, 'gone')],
    ...[volume('lost', { volumeID: 'lost', missingFrom: 'uid' }), volume('no', { code: 8, message: 'no space' })],
  ];
  const clock = new ManualClock(Date.parse(creationTimestamp));
  const state = { synced: false };
  const metric = orphanMetric(
    {
      volumes: { list: () => all, synced: true },
      persistentVolumes: {
        list: () => persistentVolumes,
        get synced() {
          return state.synced;
        },
      },
      nodes: { get: (name) => (name === 'a' ? {} : undefined), synced: true },
    },
    clock,
  );
  const counts = async () => {
    const lines = (await exposition([metric])).matchAll(/kind="(\w+)"} (\d+)/g);
    return Object.fromEntries([...lines].map(([, kind, value]) => [kind, Number(value)]));
  };
  assert.deepEqual(await counts(), {});
  state.synced = true;
  const early = { Missing: 1, NodeGone: 2, Refused: 0, Released: 2, Unclaimed: 0, NoLogicalVolume: 0 };
  assert.deepEqual(await counts(), early, 'new objects may only be on their way');
  clock.advance(20 * minuteMs);
  assert.deepEqual(await counts(), { ...early, Refused: 1, Unclaimed: 1, NoLogicalVolume: 1 });
});
