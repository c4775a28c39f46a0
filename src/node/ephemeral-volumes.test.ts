import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { silentLog } from '../base/log.ts';
import { VolumeInUse } from '../storage/errors.ts';
import { Pools } from '../storage/pools.ts';
import { EphemeralVolumes } from './ephemeral-volumes.ts';
import { InMemoryPool } from './in-memory-pool.ts';

const never = new AbortController().signal;

function node() {
  const ssd = new InMemoryPool('ssd', 4096n);
  const hdd = new InMemoryPool('hdd', 4096n);
  return { ssd, hdd, volumes: new EphemeralVolumes({ pools: new Pools([ssd, hdd], 'ssd'), log: silentLog }) };
}

test('a volume is made in the class that its pod names', async () => {
  const { volumes, ssd, hdd } = node();
  await volumes.make('a', { sizeBytes: 1n, deviceClass: '', podUid: 'p' }, never);
  await volumes.make('b', { sizeBytes: 1n, deviceClass: 'hdd', podUid: '' }, never);
  assert.deepEqual(ssd.get('a')?.tags, ['ephemeral', 'moorage.dev/pod=p']);
  assert.deepEqual(hdd.get('b')?.tags, ['ephemeral']);
  await assert.rejects(volumes.make('c', { sizeBytes: 1n, deviceClass: 'none', podUid: '' }, never), {
    code: 'NotFound',
  });
});

test("a claim's volume is never taken for an ephemeral one", async () => {
  const { volumes, ssd } = node();
  await ssd.create({ id: 'a', sizeBytes: 1n, tags: ['moorage.dev/claim=shop/db', 'not-ephemeral'] });
  await assert.rejects(volumes.make('a', { sizeBytes: 1n, deviceClass: '', podUid: 'p' }, never), {
    code: 'AlreadyExists',
    message: /^volume a exists and is not ephemeral/,
  });
  await volumes.removeIfEphemeral('a', never);
  assert.ok(ssd.get('a'));
});

test('what pods that are gone have left is removed, and nothing else', async () => {
  await using pods = await mkdtempDisposable(join(tmpdir(), 'moorage-pods-'));
  mkdirSync(join(pods.path, 'here'));
  const { volumes, ssd, hdd } = node();
  const make = (pool: InMemoryPool, id: string, ...tags: string[]) => pool.create({ id, sizeBytes: 1n, tags });
  await make(ssd, 'of-gone', 'ephemeral', 'moorage.dev/pod=gone');
  await make(hdd, 'of-gone-too', 'ephemeral', 'moorage.dev/pod=gone');
  await make(ssd, 'of-here', 'ephemeral', 'moorage.dev/pod=here');
  await make(ssd, 'of-nobody', 'ephemeral');
  await make(ssd, 'of-claim', 'moorage.dev/pod=gone');
  await volumes.removeLeftovers(pods.path, never);
  const left = [...ssd.list(), ...hdd.list()].map(({ id }) => id);
  assert.deepEqual(left, ['of-here', 'of-nobody', 'of-claim']);
});

test('a leftover that is mounted stays, and keeps no other from going', async () => {
  await using pods = await mkdtempDisposable(join(tmpdir(), 'moorage-pods-'));
  const { volumes, ssd } = node();
  for (const id of ['mounted', 'idle']) {
    await ssd.create({ id, sizeBytes: 1n, tags: ['ephemeral', 'moorage.dev/pod=gone'] });
  }
  ssd.failure = new VolumeInUse('mounted', '/dev/ssd/mounted');
  await volumes.removeLeftovers(pods.path, never);
  assert.deepEqual(
    ssd.list().map(({ id }) => id),
    ['mounted'],
  );
});

test('where no pods are to be seen, none is taken for gone', async () => {
  const { volumes, ssd } = node();
  await ssd.create({ id: 'a', sizeBytes: 1n, tags: ['ephemeral', 'moorage.dev/pod=gone'] });
  await volumes.removeLeftovers('/no/such/directory', never);
  assert.ok(ssd.get('a'));
});
