import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { systemClock } from '../base/clock.ts';
import { MoorageError } from '../base/errors.ts';
import { silentLog } from '../base/testing/silent-log.ts';
import { createdTag } from '../engine/names-and-tags.ts';
import { BeingOpened, Pools } from '../engine/pools.ts';
import { InMemoryPool } from '../engine/testing/in-memory-pool.ts';
import { LVService, VGService } from '../rpc/gen/lvmd/lvmd_pb.ts';
import { RpcServer } from '../rpc/server.ts';
import { DeviceNumbers } from './device-numbers.ts';
import { lvService } from './lv-service.ts';
import { serveLvmd } from './lvmd-server.ts';
import { RemotePools } from './remote-pools.ts';
import { vgService } from './vg-service.ts';
import { VolumeMessages } from './volume-message.ts';

const { signal } = new AbortController();
const volume = (id: string, sizeBytes = 10n) => ({ id, sizeBytes, tags: ['a'] });

async function socket(t: TestContext): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'moorage-remote-'));
  t.after(() => rm(directory, { recursive: true }));
  return join(directory, 'lvmd.sock');
}

async function connect(t: TestContext, socketPath: string): Promise<Pools> {
  const remote = await RemotePools.connect({ socketPath, clock: systemClock, log: silentLog, random: () => 0 }, signal);
  t.after(() => remote.stop());
  return remote.pools;
}

/** Waits until the pools meet the condition. */
async function until(pools: Pools, wanted: () => boolean): Promise<void> {
  const reached = Promise.withResolvers<void>();
  const check = () => void (wanted() && reached.resolve());
  const stop = pools.onChange(check);
  check();
  await reached.promise;
  stop();
}

class Refused extends MoorageError {
  readonly code = 'Internal';
}

/** How TopoLVM's lvmd differs: it adds no tags later, refuses a retry, and answers without a device. */
async function serveLikeTopolvm(t: TestContext, pools: Pools): Promise<string> {
  const socketPath = await socket(t);
  const messages = new VolumeMessages(new DeviceNumbers(silentLog));
  const ours = lvService(pools, messages);
  const server = new RpcServer({ socketPath, clock: systemClock, log: silentLog })
    .add(LVService, {
      ...ours,
      async createLV(request, call) {
        assert.ok(request.tags.includes(createdTag), 'only this tag marks the volume as created by Moorage');
        if (pools.get(request.deviceClass).get(request.name)) throw new Refused('already exists in volume group');
        const { volume } = (await ours.createLV?.(request, call)) ?? {};
        return { volume: { name: volume?.name ?? '', sizeBytes: volume?.sizeBytes ?? 0n } };
      },
    })
    .add(VGService, vgService(pools, messages));
  await server.listen();
  t.after(() => server.stop(0));
  return socketPath;
}

async function serveOurs(t: TestContext, pools: Pools): Promise<string> {
  const socketPath = await socket(t);
  const server = await serveLvmd({ socketPath, pools, clock: systemClock, log: silentLog });
  t.after(() => server.stop(0));
  return socketPath;
}

for (const [whose, serve] of [
  ['ours', serveOurs],
  ["TopoLVM's", serveLikeTopolvm],
] as const) {
  test(`through ${whose}, a volume is created, created again, grown, copied and removed`, async (t) => {
    const there = new InMemoryPool('ssd', 1000n);
    const pools = await connect(t, await serve(t, new Pools([there, new InMemoryPool('hdd', 5n)], 'ssd')));
    const pool = pools.get('ssd');
    assert.deepEqual(pool.capacity(), { sizeBytes: 1000n, freeBytes: 1000n });

    const created = await pool.create(volume('data'), signal);
    assert.equal(created.devicePath, '/dev/ssd/data');
    assert.deepEqual(created.tags, ['a']); // a real pool adds the created tag itself
    assert.deepEqual(await pool.create(volume('data'), signal), created);
    await assert.rejects(pool.create(volume('data', 20n), signal), { code: 'AlreadyExists' });
    await assert.rejects(pool.create(volume('big', 2000n), signal), { code: 'ResourceExhausted' });

    assert.equal((await pool.grow('data', 30n, signal)).sizeBytes, 30n);
    const copy = await pool.snapshot('data', { id: 'copy', tags: [], access: 'rw' }, signal);
    assert.deepEqual([copy.sizeBytes, copy.origin], [30n, 'data']);
    await until(pools, () => pool.capacity().freeBytes === 940n);

    assert.equal(await pool.remove('copy', signal), 'removed');
    assert.equal(await pool.remove('copy', signal), 'absent');
    assert.equal(pool.get('copy'), undefined);
    assert.deepEqual(
      there.list().map(({ id }) => id),
      ['data'],
    );
  });

  test(`through ${whose}, the empty name is the default class`, async (t) => {
    const hdd = new InMemoryPool('hdd', 70n);
    const pools = await connect(t, await serve(t, new Pools([new InMemoryPool('ssd', 1000n), hdd], 'hdd')));
    await pools.get('').create(volume('data'), signal);
    assert.equal(hdd.list().length, 1);
    await until(pools, () => pools.default?.capacity().freeBytes === 60n);
  });

  test(`through ${whose}, changes of other clients are seen`, async (t) => {
    const there = new InMemoryPool('ssd', 1000n);
    const pools = await connect(t, await serve(t, new Pools([there])));
    await there.create(volume('theirs'));
    await until(
      pools,
      () => pools.get('ssd').get('theirs') !== undefined && pools.get('ssd').capacity().freeBytes === 990n,
    );
    await assert.rejects(async () => pools.get(''), { code: 'NotFound' });
  });
}

test("moorage lvmd stores tags that are added later; with TopoLVM's they are missing and a warning is logged", async (t) => {
  const [ours, theirs] = [new InMemoryPool('ssd', 100n), new InMemoryPool('ssd', 100n)];
  const throughOurs = (await connect(t, await serveOurs(t, new Pools([ours])))).get('ssd');
  await throughOurs.create(volume('data'), signal);
  assert.ok((await throughOurs.addTags('data', ['later'], signal)).tags.includes('later'));
  const throughTheirs = (await connect(t, await serveLikeTopolvm(t, new Pools([theirs])))).get('ssd');
  await throughTheirs.create(volume('data'), signal);
  assert.ok(!(await throughTheirs.addTags('data', ['later'], signal)).tags.includes('later'));
});

test("moorage lvmd erases a volume that has its own policy; TopoLVM's cannot, and is not asked to", async (t) => {
  const tags = ['moorage.dev/on-removal=zero'];
  const ours = (await connect(t, await serveOurs(t, new Pools([new InMemoryPool('ssd', 100n)])))).get('ssd');
  await ours.create(volume('data'), signal);
  await ours.addTags('data', tags, signal);
  assert.equal(await ours.remove('data', signal), 'erased');

  const there = new InMemoryPool('ssd', 100n);
  const theirs = (await connect(t, await serveLikeTopolvm(t, new Pools([there])))).get('ssd');
  const refusal = { code: 'Unimplemented', message: /cannot erase a volume \(zero\); use a current moorage lvmd/ };
  await theirs.create(volume('data'), signal);
  await assert.rejects(theirs.addTags('data', tags, signal), refusal);
  await assert.rejects(theirs.create({ ...volume('more'), tags }, signal), refusal);
  await there.addTags('data', tags); // earlier, through moorage lvmd
  await theirs.refresh(signal);
  await assert.rejects(theirs.remove('data', signal), refusal);
  assert.ok(there.get('data'));
});

test("moorage lvmd empties a volume; TopoLVM's cannot", async (t) => {
  const there = new InMemoryPool('ssd', 100n);
  const ours = (await connect(t, await serveOurs(t, new Pools([there])))).get('ssd');
  await ours.create(volume('data'), signal);
  await ours.addTags('data', ['moorage.dev/filesystem=ext4'], signal);
  assert.deepEqual((await ours.empty('data', { kind: 'shred', passes: 2 }, signal)).tags, ['a', createdTag]);
  assert.deepEqual(there.emptied, [{ id: 'data', policy: { kind: 'shred', passes: 2 } }]);
  await assert.rejects(ours.empty('gone', { kind: 'zero' }, signal), { code: 'NotFound' });

  const theirs = (await connect(t, await serveLikeTopolvm(t, new Pools([there])))).get('ssd');
  const refusal = { code: 'Unimplemented', message: /cannot empty a volume; use a current moorage lvmd/ };
  await assert.rejects(theirs.empty('data', { kind: 'zero' }, signal), refusal);
});

test("moorage lvmd describes its pools and their erasures; TopoLVM's cannot", async (t) => {
  const there = new InMemoryPool('ssd', 100n);
  const ours = await connect(t, await serveOurs(t, new Pools([there], 'ssd')));
  assert.deepEqual(ours.get('ssd').details(), { ...there.details(), isDefault: true });
  there.erasing = [{ id: 'gone', doneBytes: 1n, totalBytes: 9n }];
  await there.create(volume('data'));
  await until(ours, () => ours.get('ssd').erasures().length === 1 && ours.get('ssd').details()?.usedBytes === 10n);
  assert.deepEqual(ours.get('ssd').erasures(), there.erasing);

  const theirs = await connect(t, await serveLikeTopolvm(t, new Pools([there], 'ssd')));
  assert.equal(theirs.get('ssd').details(), undefined);
});

test('moorage lvmd reports that a removal erased', async (t) => {
  const there = new InMemoryPool('ssd', 100n);
  there.erases = true;
  const pool = (await connect(t, await serveOurs(t, new Pools([there])))).get('ssd');
  await pool.create(volume('data'), signal);
  assert.equal(await pool.remove('data', signal), 'erased');
});

test('volumes that no class of moorage lvmd has are known, also those found later', async (t) => {
  const served = new Pools([new InMemoryPool('ssd', 10n)], 'ssd');
  const thick = { id: 'a', sizeBytes: 5n, tags: [createdTag], readOnly: false, volumeGroup: 'old' };
  served.foundUnserved([thick]);
  const pools = await connect(t, await serveOurs(t, served));
  assert.deepEqual(pools.unserved(), [thick]);
  const thin = { ...thick, id: 'b', readOnly: true, thinPool: 'pool' };
  served.foundUnserved([thick, thin]);
  await until(pools, () => pools.unserved().length === 2);
  assert.deepEqual(pools.unserved(), [thick, thin]);
});

test('a class that lvmd cannot serve yet is unavailable, not unknown', async (t) => {
  const served = new Pools();
  const become = (...names: string[]) => {
    const unavailable = names.map((name) => [name, new BeingOpened()] as const);
    served.become({ pools: [new InMemoryPool('ssd', 10n)], defaultClass: 'ssd', unavailable: new Map(unavailable) });
  };
  become('thin');
  const pools = await connect(t, await serveOurs(t, served));
  assert.throws(() => pools.get('thin'), { code: 'Unavailable', message: /still being opened/ });
  assert.throws(() => pools.get('fast'), { code: 'NotFound' });
  become();
  await until(pools, () => pools.unavailable().size === 0);
});

test('while lvmd is down, reads answer from memory and changes fail; when it is back, everything is read again', async (t) => {
  const there = new InMemoryPool('ssd', 1000n);
  const served = new Pools([there]);
  const socketPath = await socket(t);
  const serve = () => serveLvmd({ socketPath, pools: served, clock: systemClock, log: silentLog });
  const first = await serve();
  const remote = await RemotePools.connect({ socketPath, clock: systemClock, log: silentLog, random: () => 0 }, signal);
  t.after(() => remote.stop());
  const { pools } = remote;
  const pool = pools.get('ssd');
  await pool.create(volume('data'), signal);
  assert.equal(remote.isAway, false);
  await first.stop(0);
  await until(pools, () => remote.isAway);

  assert.ok(pool.get('data'));
  await assert.rejects(pool.create(volume('more'), signal), { code: 'Unavailable' });
  await there.create(volume('theirs'));
  const second = await serve();
  t.after(() => second.stop(0));
  await until(pools, () => pool.get('theirs') !== undefined);
  while (remote.isAway) await setImmediate();
});

test('a client that connects before lvmd runs waits for it, and can stop waiting', async (t) => {
  const socketPath = await socket(t);
  const abort = new AbortController();
  const options = { socketPath, clock: systemClock, log: silentLog, random: () => 0 };
  const waiting = RemotePools.connect(options, abort.signal);
  abort.abort();
  await assert.rejects(waiting, { name: 'AbortError' });
});
