import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { type LogicalVolume, logicalVolumes } from '../../api/logical-volume.ts';
import { systemClock } from '../../base/clock.ts';
import { Listeners } from '../../base/listeners.ts';
import { ManualClock } from '../../base/testing/manual-clock.ts';
import { silentLog } from '../../base/testing/silent-log.ts';
import { Workers } from '../../base/work.ts';
import { FilesystemMismatch, SuperblockBusy } from '../../filesystem/format.ts';
import { Informer } from '../../kube/informer.ts';
import { InMemoryApi } from '../../kube/testing/in-memory-api.ts';
import { requested, settled } from '../testing/reconciling-node.ts';
import { filesystemErrors, type Preparation } from './filesystem-errors.ts';

const mismatch = new FilesystemMismatch('v', 'ext4', 'xfs');

/** An agent whose LogicalVolume pvc-1 has volume v. */
async function agent(t: TestContext, annotations: Record<string, string> = {}) {
  const api = new InMemoryApi<LogicalVolume>();
  const metadata = { ...requested.metadata, name: 'pvc-1', annotations };
  await api.create(logicalVolumes, { ...requested, metadata, status: { volumeID: 'v', currentSize: '1Ki' } });
  const volumes = new Informer({ client: api.client, resource: logicalVolumes, clock: systemClock, log: silentLog });
  const prepared = new Listeners<Preparation>();
  const work = filesystemErrors({ client: api.client, volumes, prepared });
  const workers = new Workers([work], { clock: new ManualClock(), log: silentLog, random: () => 0 });
  workers.start();
  t.after(async () => {
    await workers.stop(0);
    await volumes.stop();
  });
  const attempt = async (error?: unknown, volumeId = 'v') => {
    prepared.notify({ volumeId, error });
    await settled();
  };
  const recorded = async () =>
    (await api.get(logicalVolumes, 'pvc-1'))?.metadata.annotations?.['moorage.dev/filesystem-error'];
  const writes = () => api.calls.filter((call) => call.startsWith('patch')).length;
  const start = async () => {
    volumes.start();
    await volumes.whenSynced(new AbortController().signal);
    await settled();
  };
  return { api, start, attempt, recorded, writes };
}

test('a filesystem that can be used costs no write', async (t) => {
  const { start, attempt, recorded, writes } = await agent(t);
  await start();
  for (let i = 0; i < 3; i++) await attempt();
  assert.deepEqual([await recorded(), writes()], [undefined, 0]);
});

test('an error is recorded once, replaced by another one, and removed by success', async (t) => {
  const { start, attempt, recorded, writes } = await agent(t, { 'moorage.dev/claim': 'shop/db' });
  await start();
  for (let i = 0; i < 3; i++) await attempt(mismatch); // the kubelet retries
  assert.equal(await recorded(), mismatch.message);
  assert.equal(writes(), 1);

  await attempt(new Error('mount failed'));
  assert.equal(await recorded(), 'mount failed');
  await attempt();
  await attempt();
  assert.deepEqual([await recorded(), writes()], [undefined, 3]);
});

test('a temporary failure neither records nor removes an error', async (t) => {
  const { start, attempt, recorded, writes } = await agent(t);
  await start();
  await attempt(new SuperblockBusy('v'));
  assert.equal(await recorded(), undefined);
  await attempt(mismatch);
  await attempt(new DOMException('the kubelet left', 'AbortError'));
  assert.deepEqual([await recorded(), writes()], [mismatch.message, 1]);
});

test('an attempt before the objects are read is recorded afterwards', async (t) => {
  const { start, attempt, recorded } = await agent(t, { 'moorage.dev/filesystem-error': 'from before the restart' });
  await attempt();
  assert.equal(await recorded(), 'from before the restart');
  await start();
  assert.equal(await recorded(), undefined);
});

test('a long error is cut, and one of a volume without an object is ignored', async (t) => {
  const { start, attempt, recorded, writes } = await agent(t);
  await start();
  await attempt(new Error('no'), 'another');
  assert.equal(writes(), 0);
  await attempt(new Error('ü'.repeat(5_000)));
  assert.ok(Buffer.byteLength((await recorded()) ?? '') <= 900);
});
