import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import type { StoredLogicalVolume } from '../api/logical-volume.ts';
import { driverName } from '../api/names.ts';
import { ManualClock } from '../base/testing/manual-clock.ts';
import { silentLog } from '../base/testing/silent-log.ts';
import { Workers } from '../base/work.ts';
import { type PersistentVolume, persistentVolumes } from '../kube/resource.ts';
import { InMemoryApi } from '../kube/testing/in-memory-api.ts';
import { exposition } from '../metrics/metric.ts';
import { OrphanedObjects } from './orphaned-objects.ts';

const minuteMs = 60_000;
/** The creation time of all objects in the in-memory API server. */
const creationTimestamp = '2026-01-01T00:00:00Z';

function volume(name: string, status: StoredLogicalVolume['status'] = { volumeID: name }, nodeName = 'a') {
  const metadata = { name, uid: name, resourceVersion: '1', creationTimestamp };
  return { metadata, spec: { name, nodeName, size: '1Gi' }, status } as StoredLogicalVolume;
}

test('the leader counts orphans of each kind, again every 10 minutes, and a former leader reports none', async () => {
  const api = new InMemoryApi<PersistentVolume>();
  const create = (name: string, driver: string, phase: string) => {
    const spec = { csi: { driver, volumeHandle: name }, persistentVolumeReclaimPolicy: 'Retain' };
    return api.create(persistentVolumes, { metadata: { name }, spec, status: { phase } });
  };
  await create('used', driverName, 'Bound');
  await create('kept', driverName, 'Released');
  await create('bare', driverName, 'Bound');
  await create('foreign', 'other.example', 'Released');
  const all = [
    ...[volume('used'), volume('kept'), volume('no-pv'), volume('far', { volumeID: 'far' }, 'gone')],
    ...[volume('lost', { volumeID: 'lost', missingFrom: 'uid' }), volume('no', { code: 8, message: 'no space' })],
  ];
  const clock = new ManualClock(Date.parse(creationTimestamp));
  const whenSynced = async () => undefined;
  const orphans = new OrphanedObjects({
    client: api.client,
    volumes: { list: () => all, whenSynced },
    nodes: { get: (name) => (name === 'a' ? {} : undefined), whenSynced },
    clock,
  });
  const counts = async () => {
    for (let turn = 0; turn < 20; turn++) await setImmediate();
    const lines = (await exposition([orphans.metric])).matchAll(/kind="(\w+)"} (\d+)/g);
    return Object.fromEntries([...lines].map(([, kind, value]) => [kind, Number(value)]));
  };
  const term = new AbortController();
  const leading = new Workers([orphans.work], { clock, log: silentLog, random: () => 0 }).lead(term.signal);
  assert.deepEqual(await counts(), {});
  clock.advance(minuteMs);
  const early = { Missing: 1, NodeGone: 1, Refused: 0, Released: 1, Unclaimed: 0, NoLogicalVolume: 0 };
  assert.deepEqual(await counts(), early, 'new objects may only be on their way');
  clock.advance(10 * minuteMs);
  await counts();
  clock.advance(10 * minuteMs);
  assert.deepEqual(await counts(), { ...early, Refused: 1, Unclaimed: 1, NoLogicalVolume: 1 });
  term.abort();
  await leading;
  assert.deepEqual(await counts(), {});
});
