import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { mkdtempDisposable } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { silentLog } from '../base/testing/silent-log.ts';
import type { EphemeralVolume } from '../csi/volume-use.ts';
import { VolumeInUse } from '../engine/errors.ts';
import { Pools } from '../engine/pools.ts';
import { InMemoryPool } from '../engine/testing/in-memory-pool.ts';
import { EphemeralVolumes, type InlineLimits } from './ephemeral-volumes.ts';

const never = new AbortController().signal;

const gibi = 1024n ** 3n;
const strict: InlineLimits = { enabled: true, deviceClasses: [], maxSizeBytes: 10n * gibi };
const request: EphemeralVolume = { sizeBytes: gibi, deviceClass: '', podUid: 'p', forClassesOnly: [] };

function node(limits?: InlineLimits) {
  const ssd = new InMemoryPool('ssd', 100n * gibi);
  const hdd = new InMemoryPool('hdd', 100n * gibi);
  const pools = new Pools([ssd, hdd], 'ssd');
  return { ssd, hdd, volumes: new EphemeralVolumes({ pools, limits, log: silentLog }) };
}

test('without limits a volume is created in any class', async () => {
  const { volumes, ssd, hdd } = node();
  await volumes.create('a', request, never);
  await volumes.create('b', { ...request, deviceClass: 'hdd', podUid: '', sizeBytes: 50n * gibi }, never);
  assert.deepEqual(ssd.get('a')?.tags, ['ephemeral', 'moorage.dev/pod=p']);
  assert.deepEqual(hdd.get('b')?.tags, ['ephemeral']);
  await assert.rejects(volumes.create('c', { ...request, deviceClass: 'none' }, never), { code: 'NotFound' });
});

test('a pod gets inline volumes of the default class, by its name or without, up to the limit', async () => {
  const { volumes, ssd } = node(strict);
  await volumes.create('a', { ...request, sizeBytes: 10n * gibi }, never);
  await volumes.create('b', { ...request, deviceClass: 'ssd' }, never);
  assert.deepEqual(
    ssd.list().map(({ id }) => id),
    ['a', 'b'],
  );
});

test('a refused inline volume names the limit and the value to change, and creates nothing', async () => {
  const refusals: [Partial<EphemeralVolume>, Partial<InlineLimits>, string][] = [
    [
      { sizeBytes: 11n * gibi },
      {},
      'an inline volume of 11 GiB is requested (topolvm.io/size), and 10 GiB is the limit; request less, use a generic ephemeral volume, or raise node.inlineVolumes.maxSize (--inline-max-size)',
    ],
    [
      { deviceClass: 'hdd' },
      {},
      'device class "hdd" is requested for an inline volume (topolvm.io/device-class), and only the default class is allowed; leave it out, use a generic ephemeral volume, or add it to node.inlineVolumes.deviceClasses (--inline-device-classes)',
    ],
    [
      { deviceClass: 'hdd' },
      { deviceClasses: ['nvme', 'tape'] },
      'device class "hdd" is requested for an inline volume (topolvm.io/device-class), and the default class, nvme, tape are allowed; name one of them, use a generic ephemeral volume, or add it to node.inlineVolumes.deviceClasses (--inline-device-classes)',
    ],
    [
      { forClassesOnly: ['moorage.dev/mkfs-options', 'moorage.dev/root-owner'] },
      {},
      "the pod's volume attributes hold moorage.dev/mkfs-options, moorage.dev/root-owner, which only a StorageClass may set; leave them out, or use a generic ephemeral volume of such a class",
    ],
    [
      {},
      { enabled: false },
      'inline volumes are disabled; use a generic ephemeral volume, or set node.inlineVolumes.enabled (--inline-volumes)',
    ],
  ];
  for (const [wanted, limits, message] of refusals) {
    const { volumes, ssd, hdd } = node({ ...strict, ...limits });
    await assert.rejects(volumes.create('a', { ...request, ...wanted }, never), { code: 'PermissionDenied', message });
    assert.deepEqual([...ssd.list(), ...hdd.list()], []);
  }
});

test('a class that cannot be served now is reported as unavailable, not as forbidden', async () => {
  const pools = new Pools();
  pools.become({ pools: [], defaultClass: 'ssd', unavailable: new Map([['hdd', new Error('no disk')]]) });
  const volumes = new EphemeralVolumes({ pools, limits: strict, log: silentLog });
  await assert.rejects(volumes.create('a', { ...request, deviceClass: 'hdd' }, never), { code: 'Unavailable' });
});

test('further classes are allowed by name', async () => {
  const { volumes, hdd } = node({ ...strict, deviceClasses: ['hdd'] });
  await volumes.create('a', { ...request, deviceClass: 'hdd' }, never);
  assert.ok(hdd.get('a'));
});

test('a volume that a pod already has is kept, whatever the new limits are', async () => {
  for (const limits of [strict, { ...strict, enabled: false }]) {
    const { volumes, hdd } = node(limits);
    await hdd.create({ id: 'a', sizeBytes: 50n * gibi, tags: ['ephemeral', 'moorage.dev/pod=p'] });
    const wanted = {
      ...request,
      sizeBytes: 50n * gibi,
      deviceClass: 'hdd',
      forClassesOnly: ['moorage.dev/mkfs-options'],
    };
    assert.equal(await volumes.create('a', wanted, never), false);
    await volumes.removeIfEphemeral('a', never);
    assert.equal(hdd.get('a'), undefined);
  }
});

test("a claim's volume is never treated as ephemeral", async () => {
  const { volumes, ssd } = node();
  await ssd.create({ id: 'a', sizeBytes: 1n, tags: ['moorage.dev/claim=shop/db', 'not-ephemeral'] });
  await assert.rejects(volumes.create('a', request, never), {
    code: 'AlreadyExists',
    message: /^volume a exists and is not ephemeral/,
  });
  await volumes.removeIfEphemeral('a', never);
  assert.ok(ssd.get('a'));
});

test('only leftovers of deleted pods are removed', async () => {
  await using pods = await mkdtempDisposable(join(tmpdir(), 'moorage-pods-'));
  mkdirSync(join(pods.path, 'here'));
  const { volumes, ssd, hdd } = node();
  const create = (pool: InMemoryPool, id: string, ...tags: string[]) => pool.create({ id, sizeBytes: 1n, tags });
  await create(ssd, 'of-gone', 'ephemeral', 'moorage.dev/pod=gone');
  await create(hdd, 'of-gone-too', 'ephemeral', 'moorage.dev/pod=gone');
  await create(ssd, 'of-here', 'ephemeral', 'moorage.dev/pod=here');
  await create(ssd, 'of-nobody', 'ephemeral');
  await create(ssd, 'of-claim', 'moorage.dev/pod=gone');
  await volumes.removeLeftovers(pods.path, never);
  const left = [...ssd.list(), ...hdd.list()].map(({ id }) => id);
  assert.deepEqual(left, ['of-here', 'of-nobody', 'of-claim']);
});

test('a mounted leftover is kept and does not block the removal of others', async () => {
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

test('without access to the pods directory nothing is removed', async () => {
  const { volumes, ssd } = node();
  await ssd.create({ id: 'a', sizeBytes: 1n, tags: ['ephemeral', 'moorage.dev/pod=gone'] });
  await volumes.removeLeftovers('/no/such/directory', never);
  assert.ok(ssd.get('a'));
});

test('leftovers in a class that is served late are removed then', async () => {
  await using pods = await mkdtempDisposable(join(tmpdir(), 'moorage-pods-'));
  const [ssd, thin] = [new InMemoryPool('ssd', gibi), new InMemoryPool('thin', gibi)];
  for (const pool of [ssd, thin]) {
    await pool.create({ id: `in-${pool.name}`, sizeBytes: 1n, tags: ['ephemeral', 'moorage.dev/pod=gone'] });
  }
  const pools = new Pools([ssd], 'ssd');
  const leftovers = new EphemeralVolumes({ pools, log: silentLog }).removeLeftoversOnceServed(pods.path, never);
  pools.become({ pools: [ssd, thin], defaultClass: 'ssd', unavailable: new Map() });
  await thin.create({ id: 'young', sizeBytes: 1n, tags: ['ephemeral', 'moorage.dev/pod=starting'] });
  await leftovers.stop();
  assert.deepEqual(
    [...ssd.list(), ...thin.list()].map(({ id }) => id),
    ['young'],
    'volumes created later are left to the kubelet',
  );
});
