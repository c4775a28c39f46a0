import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { type LogicalVolume, type LogicalVolumeStatus, logicalVolumes } from '../api/logical-volume.ts';
import { logicalVolume } from '../api/names.ts';
import { ManualClock } from '../base/testing/manual-clock.ts';
import { silentLog } from '../base/testing/silent-log.ts';
import { Workers } from '../base/work.ts';
import type { Informer } from '../kube/informer.ts';
import { refusedVolumes } from './refused-volumes.ts';
import { InMemoryCluster } from './testing/in-memory-cluster.ts';

const minuteMs = 60_000;
const refusal: LogicalVolumeStatus = { code: 5, message: 'no such source' };

/** The creation time of all objects in the in-memory API server. */
const createdAtMs = Date.parse('2026-01-01T00:00:00Z');

function clusterOf(t: TestContext, toRequest: () => LogicalVolumeStatus | undefined) {
  const cluster = new InMemoryCluster(t);
  cluster.nodesAnswer({ toRequest });
  return cluster;
}

async function ask(cluster: InMemoryCluster): Promise<void> {
  const metadata = { name: 'pvc-a', finalizers: [logicalVolume.finalizer] };
  await cluster.api.create(logicalVolumes, { metadata, spec: { name: 'pvc-a', nodeName: 'a', size: '1Gi' } });
}

function run(t: TestContext, cluster: InMemoryCluster, watched: Pick<Informer<LogicalVolume>, 'get' | 'onChange'>) {
  const clock = new ManualClock(createdAtMs);
  const { client } = cluster.api;
  const stop = new AbortController();
  const work = refusedVolumes({ client, volumes: watched, clock, log: silentLog });
  const running = new Workers([work], { clock, log: silentLog, random: () => 0 }).lead(stop.signal);
  t.after(async () => {
    stop.abort();
    await running;
  });
  return clock;
}

const soon = () => AbortSignal.timeout(60_000);

/** Waits until everything triggered by the last action is done: only turns of the event loop are needed here. */
async function settled(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await setImmediate();
}

test('a refused volume is deleted once no caller can still be waiting for it', async (t) => {
  const cluster = clusterOf(t, () => refusal);
  const clock = run(t, cluster, cluster.watched);
  await ask(cluster);
  await cluster.watched.until('pvc-a', (found) => found?.status?.code === refusal.code, soon());
  await settled();
  clock.advance(10 * minuteMs - 1);
  await settled();
  assert.ok(await cluster.api.get(logicalVolumes, 'pvc-a'), 'the caller may still need the reason');

  clock.advance(1);
  await cluster.watched.until('pvc-a', (found) => found === undefined, soon());
  assert.equal(cluster.api.calls.filter((call) => call === 'delete pvc-a').length, 1);
});

for (const [what, status] of [
  ['has not been answered', undefined],
  ['was created, whatever failed later', { volumeID: 'uid-1', currentSize: '1Gi', ...refusal }],
] as const) {
  test(`a volume that ${what} stays`, async (t) => {
    const cluster = clusterOf(t, () => status);
    const clock = run(t, cluster, cluster.watched);
    await ask(cluster);
    await cluster.watched.until('pvc-a', (found) => found?.status?.code === status?.code, soon());
    await settled();
    clock.advance(60 * minuteMs);
    await settled();
    assert.ok(!cluster.api.calls.includes('delete pvc-a'));
  });
}

test('a volume that has changed since it was read stays', async (t) => {
  const cluster = clusterOf(t, () => refusal);
  await ask(cluster);
  const seen = await cluster.watched.until('pvc-a', (found) => found?.status?.code === refusal.code, soon());
  const body = { metadata: { annotations: { since: 'changed' } } };
  await cluster.api.patch(logicalVolumes, 'pvc-a', { type: 'merge', body });
  const behind: Pick<Informer<LogicalVolume>, 'get' | 'onChange'> = {
    get: () => seen,
    onChange: (handler) => cluster.watched.onChange(handler),
  };
  const clock = run(t, cluster, behind);
  await settled();
  clock.advance(10 * minuteMs);
  await settled();
  assert.ok(cluster.api.calls.includes('delete pvc-a'));
  assert.equal((await cluster.api.get(logicalVolumes, 'pvc-a'))?.metadata.deletionTimestamp, undefined);
});
