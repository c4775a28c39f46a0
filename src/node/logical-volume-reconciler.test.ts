import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { systemClock } from '../base/clock.ts';
import { KeyedQueue } from '../base/keyed-queue.ts';
import { silentLog } from '../base/log.ts';
import { ManualClock } from '../base/manual-clock.ts';
import { Informer } from '../kube/informer.ts';
import { InMemoryApi } from '../logical-volume/in-memory-api.ts';
import { type LogicalVolume, logicalVolumes, type StoredLogicalVolume } from '../logical-volume/logical-volume.ts';
import { VolumeHasSnapshots, VolumeInactive } from '../storage/errors.ts';
import { Pools } from '../storage/pools.ts';
import { InMemoryPool } from './in-memory-pool.ts';
import { LogicalVolumeReconciler } from './logical-volume-reconciler.ts';

const never = new AbortController().signal;
const wish: LogicalVolume = {
  metadata: {
    name: 'pvc-1',
    finalizers: ['topolvm.io/logicalvolume'],
    annotations: { 'moorage.dev/claim': 'shop/db' },
  },
  spec: { name: 'pvc-1', nodeName: 'a', size: '1Ki', deviceClass: 'ssd' },
};

const { deviceClass: _, ...byDefault } = wish.spec;

/** A node with two pools, `ssd` the default, that reconciles as the agent does. */
function node(t: TestContext) {
  const api = new InMemoryApi<LogicalVolume>();
  const clock = new ManualClock();
  const ssd = new InMemoryPool('ssd', 4096n);
  const hdd = new InMemoryPool('hdd', 4096n);
  const volumes = new Informer({ client: api.client, resource: logicalVolumes, clock: systemClock, log: silentLog });
  const pools = new Pools([ssd, hdd], 'ssd');
  const reconciler = new LogicalVolumeReconciler({ client: api.client, volumes, pools, log: silentLog });
  const queue = new KeyedQueue({
    reconcile: (name, signal) => reconciler.reconcile(name, signal),
    concurrency: 4,
    clock,
    log: silentLog,
    random: () => 0,
  });
  volumes.onChange((change) => {
    if (LogicalVolumeReconciler.needsLook(change)) queue.add(change.key);
  });
  pools.onChange(() => {
    for (const name of reconciler.worthAnotherTry()) queue.add(name);
  });
  volumes.start();
  t.after(async () => {
    await queue.stop(0);
    await volumes.stop();
  });
  const answered = (name = 'pvc-1') => volumes.until(name, (volume) => volume?.status !== undefined, never);
  const gone = (name = 'pvc-1') => volumes.until(name, (volume) => volume === undefined, never);
  return { api, clock, ssd, hdd, pools, volumes, answered, gone };
}

class Trouble extends Error {
  override readonly name: string;
  constructor(name: string) {
    super(`there is ${name}`);
    this.name = name;
  }
}

test('a volume is made with one write, and says whose it is', async (t) => {
  const { api, ssd, answered } = node(t);
  await api.create(logicalVolumes, wish);
  const volume = await answered();
  assert.deepEqual(volume?.status, { volumeID: 'uid-1', currentSize: '1Ki', code: 0, message: '' });
  assert.deepEqual(ssd.get('uid-1')?.tags, ['moorage.dev/volume=pvc-1', 'moorage.dev/claim=shop/db']);
  await setImmediate();
  assert.deepEqual(api.calls, ['create pvc-1', 'patch pvc-1/status']);
});

test('a volume that was made before a crash is found, not made twice', async (t) => {
  const { api, ssd, answered } = node(t);
  await ssd.create({ id: 'uid-1', sizeBytes: 2048n, tags: [] });
  await api.create(logicalVolumes, wish);
  assert.equal((await answered())?.status?.currentSize, '2Ki');
  assert.equal(ssd.list().length, 1);
});

test('a volume that was made before a crash is found also if another class is the default since', async (t) => {
  const { api, ssd, hdd, answered } = node(t);
  await hdd.create({ id: 'uid-1', sizeBytes: 2048n, tags: [] });
  await api.create(logicalVolumes, { ...wish, spec: byDefault });
  assert.equal((await answered())?.status?.currentSize, '2Ki');
  assert.deepEqual(ssd.list(), []);
});

test('a copy that was made before a crash is found also if its source has gone since', async (t) => {
  const { api, ssd, answered } = node(t);
  await ssd.create({ id: 'uid-1', sizeBytes: 2048n, tags: [] });
  const annotations = { 'moorage.dev/content-source': 'snapshot/gone' };
  const spec: LogicalVolume['spec'] = { ...wish.spec, source: 'snapshot-1', accessType: 'rw' };
  await api.create(logicalVolumes, { ...wish, metadata: { ...wish.metadata, annotations }, spec });
  assert.equal((await answered())?.status?.volumeID, 'uid-1');
});

test('a failure never takes the place of an answer that the watch has not told of yet', async () => {
  const api = new InMemoryApi<LogicalVolume>();
  const ssd = new InMemoryPool('ssd', 4096n);
  const stale = await api.create(logicalVolumes, wish);
  const volumes = { get: () => stale, list: () => [stale] };
  const pools = new Pools([ssd], 'ssd');
  const reconciler = new LogicalVolumeReconciler({ client: api.client, volumes, pools, log: silentLog });
  await reconciler.reconcile('pvc-1', never); // the answer arrives, but suppose that we do not hear of it
  ssd.failure = new Trouble('an odd disk');
  await assert.rejects(reconciler.reconcile('pvc-1', never), { status: 422 });
  assert.equal((await api.get(logicalVolumes, 'pvc-1'))?.status?.volumeID, 'uid-1');
});

test('a volume that was made without telling its size is measured', async (t) => {
  const { api, hdd, volumes } = node(t);
  await hdd.create({ id: 'old-name', sizeBytes: 2048n, tags: [] });
  await api.create(logicalVolumes, { ...wish, status: { volumeID: 'old-name' } });
  const volume = await volumes.until('pvc-1', (current) => current?.status?.currentSize !== undefined, never);
  assert.deepEqual(volume?.status, { volumeID: 'old-name', currentSize: '2Ki' });
});

test('a volume that was made and is gone is never made again: it would be empty', async (t) => {
  const { api, clock, ssd } = node(t);
  await api.create(logicalVolumes, { ...wish, status: { volumeID: 'lost' } });
  while (clock.timers === 0) await setImmediate(); // it looks again later, in case the disk comes back
  assert.deepEqual(ssd.list(), []);
});

test('a failure is answered with code and sentence, and not tried again', async (t) => {
  const { api, ssd, answered } = node(t);
  await api.create(logicalVolumes, { ...wish, spec: { ...wish.spec, size: '1Gi' } });
  const volume = await answered();
  assert.equal(volume?.status?.code, 8);
  assert.match(volume.status.message ?? '', /device class ssd has 4 KiB free, 1 GiB wanted/);
  assert.equal(ssd.list().length, 0);
});

test('what passes by itself is tried again, and nobody is bothered', async (t) => {
  const { api, clock, ssd, answered } = node(t);
  ssd.failure = new Trouble('TimeoutError');
  await api.create(logicalVolumes, wish);
  while (clock.timers === 0) await setImmediate();
  clock.advance(60_000);
  assert.equal((await answered())?.status?.volumeID, 'uid-1');
});

test('a wrong wish is answered with what is wrong', async (t) => {
  const { api, answered } = node(t);
  const wrong: readonly [string, Partial<LogicalVolume['spec']>, number, RegExp][] = [
    ['class', { deviceClass: 'tape' }, 5, /no device class tape; it has ssd, hdd/],
    ['size', { size: 'much' }, 3, /much/],
    ['copy', { source: 'snapshot-1' }, 5, /no LogicalVolume snapshot-1 to copy/],
  ];
  for (const [name, spec, code, message] of wrong) {
    await api.create(logicalVolumes, { metadata: { ...wish.metadata, name }, spec: { ...wish.spec, ...spec } });
    const volume = await answered(name);
    assert.equal(volume?.status?.code, code);
    assert.match(volume.status.message ?? '', message);
  }
});

test('an object without the finalizer gets it before the volume is made', async (t) => {
  const { api, answered } = node(t);
  await api.create(logicalVolumes, { ...wish, metadata: { name: 'pvc-1', finalizers: ['theirs'] } });
  const volume = await answered();
  assert.deepEqual(volume?.metadata.finalizers, ['theirs', 'topolvm.io/logicalvolume']);
  assert.deepEqual(api.calls, ['create pvc-1', 'patch pvc-1', 'patch pvc-1/status']);
});

test('a deleted volume goes from the disk, then its object', async (t) => {
  const { api, ssd, hdd, answered, gone } = node(t);
  await hdd.create({ id: 'other', sizeBytes: 1n, tags: [] });
  await api.create(logicalVolumes, wish);
  await answered();
  await api.delete(logicalVolumes, 'pvc-1');
  await gone();
  assert.equal(ssd.list().length, 0);
  assert.equal(hdd.list().length, 1, 'only what was asked for');
});

test('a volume is removed from the pool that has it, whatever the default is today', async (t) => {
  const { api, hdd, answered, gone } = node(t);
  await hdd.create({ id: 'old-name', sizeBytes: 1024n, tags: [] });
  await api.create(logicalVolumes, { ...wish, spec: byDefault, status: { volumeID: 'old-name', currentSize: '1Ki' } });
  await answered();
  await api.delete(logicalVolumes, 'pvc-1');
  await gone();
  assert.equal(hdd.get('old-name'), undefined);
});

/** Time for whatever would be done without waiting. */
async function settled(): Promise<void> {
  for (let i = 0; i < 20; i++) await setImmediate();
}

test('a volume whose class has left is not forgotten because today another class is the default', async (t) => {
  const { api, clock, ssd, hdd, pools, volumes, answered, gone } = node(t);
  await api.create(logicalVolumes, { ...wish, spec: byDefault });
  await answered();
  pools.become({ pools: [hdd], defaultClass: 'hdd', unavailable: new Map() });
  await api.delete(logicalVolumes, 'pvc-1');
  const volume = await volumes.until('pvc-1', (current) => current?.status?.code === 9, never);
  assert.match(volume?.status?.message ?? '', /no device class of this node has volume uid-1/);
  await settled();
  assert.ok(await api.get(logicalVolumes, 'pvc-1'), 'its volume is still on the disk');

  pools.become({ pools: [hdd, ssd], defaultClass: 'hdd', unavailable: new Map() });
  clock.advance(60_000);
  await gone();
  assert.deepEqual(ssd.list(), []);
});

test('a volume that is gone is let go once it is said which class had it', async (t) => {
  const { api, clock, ssd, volumes, answered, gone } = node(t);
  await api.create(logicalVolumes, { ...wish, spec: byDefault });
  await answered();
  await ssd.remove('uid-1'); // by hand
  await api.delete(logicalVolumes, 'pvc-1');
  await volumes.until('pvc-1', (current) => current?.status?.code === 9, never);
  const annotations = { 'moorage.dev/held-by': 'ssd' };
  await api.patch(logicalVolumes, 'pvc-1', { type: 'merge', body: { metadata: { annotations } } });
  await settled();
  clock.advance(60_000);
  await gone();
});

test('a crash after the removal of a volume of the default class does not keep its object for ever', async (t) => {
  const { api, clock, ssd, pools, answered, gone } = node(t);
  await api.create(logicalVolumes, { ...wish, spec: byDefault });
  await answered();
  const remove = ssd.remove.bind(ssd);
  ssd.remove = async (id) => {
    await remove(id);
    ssd.remove = remove;
    throw new Trouble('a crash');
  };
  await api.delete(logicalVolumes, 'pvc-1');
  while (clock.timers === 0) await setImmediate();
  assert.deepEqual(ssd.list(), []);
  pools.become({ pools: pools.all(), defaultClass: 'hdd', unavailable: new Map() });
  clock.advance(60_000);
  await gone();
});

test('a deletion joins the erasure under way, whatever the default is today', async (t) => {
  const { api, ssd, pools, answered, gone } = node(t);
  await api.create(logicalVolumes, { ...wish, spec: byDefault });
  await answered();
  await ssd.remove('uid-1');
  ssd.erasing = [{ id: 'uid-1', doneBytes: 0n, totalBytes: 1024n }];
  pools.become({ pools: pools.all(), defaultClass: 'hdd', unavailable: new Map() });
  const over = Promise.withResolvers<void>();
  ssd.remove = () => over.promise.then(() => true);
  await api.delete(logicalVolumes, 'pvc-1');
  await settled();
  assert.ok(await api.get(logicalVolumes, 'pvc-1'), 'its data is still on the disk');
  over.resolve();
  await gone();
});

test('a volume that may have been made by default is not forgotten while any class cannot be served', async (t) => {
  const { api, clock, ssd, hdd, pools, gone } = node(t);
  pools.become({ pools: [hdd], defaultClass: 'hdd', unavailable: new Map([['ssd', new Trouble('no disk')]]) });
  hdd.failure = new Trouble('TimeoutError');
  const made = await api.create(logicalVolumes, { ...wish, spec: byDefault });
  await ssd.create({ id: made.metadata.uid, sizeBytes: 1024n, tags: [] });
  await api.delete(logicalVolumes, 'pvc-1');
  await settled();
  assert.ok(await api.get(logicalVolumes, 'pvc-1'), 'its volume is still on the disk');

  pools.become({ pools: [hdd, ssd], defaultClass: 'hdd', unavailable: new Map() });
  clock.advance(60_000);
  await gone();
  assert.deepEqual(ssd.list(), []);
});

test('a volume whose class never existed can be deleted', async (t) => {
  const { api, answered, gone } = node(t);
  await api.create(logicalVolumes, { ...wish, spec: { ...wish.spec, deviceClass: 'tape' } });
  await answered();
  await api.delete(logicalVolumes, 'pvc-1');
  await gone();
});

test('a volume that was made before a crash is not forgotten while its class cannot be served', async (t) => {
  const { api, clock, ssd, pools, gone } = node(t);
  const classless = { pools: [], defaultClass: 'ssd', unavailable: new Map([['ssd', new Trouble('no disk')]]) };
  pools.become(classless);
  const made = await api.create(logicalVolumes, wish);
  await ssd.create({ id: made.metadata.uid, sizeBytes: 1024n, tags: [] });
  await api.delete(logicalVolumes, 'pvc-1');
  for (let i = 0; i < 20; i++) await setImmediate();
  assert.ok(await api.get(logicalVolumes, 'pvc-1'), 'its volume is still on the disk');

  pools.become({ pools: [ssd], defaultClass: 'ssd', unavailable: new Map() });
  clock.advance(60_000);
  await gone();
  assert.deepEqual(ssd.list(), []);
});

test('a volume that cannot be removed says why, keeps its object, and is tried again', async (t) => {
  const { api, clock, ssd, volumes, answered, gone } = node(t);
  await api.create(logicalVolumes, wish);
  await answered();
  ssd.failure = new Trouble('a holder of the device');
  await api.delete(logicalVolumes, 'pvc-1');
  const failed = (volume: StoredLogicalVolume | undefined) => volume?.status?.code === 13;
  const volume = await volumes.until('pvc-1', failed, never);
  assert.equal(volume?.status?.message, 'there is a holder of the device');
  assert.equal(volume.status.volumeID, 'uid-1', 'still known');
  while (clock.timers === 0) await setImmediate();
  clock.advance(60_000);
  await gone();
  assert.equal(ssd.list().length, 0);
});

test('an object that the controller has let go is left alone, and so is its volume', async (t) => {
  const { api, ssd, answered } = node(t);
  await api.create(logicalVolumes, wish);
  await answered();
  const annotations = { 'topolvm.io/pendingdeletion': 'true' };
  await api.patch(logicalVolumes, 'pvc-1', { type: 'merge', body: { metadata: { annotations } } });
  await api.delete(logicalVolumes, 'pvc-1');
  await setImmediate();
  assert.ok(ssd.get('uid-1'));
  assert.ok(await api.get(logicalVolumes, 'pvc-1'));
});

/** What the controller does when a claim shall be larger. */
async function ask(api: InMemoryApi<LogicalVolume>, size: string, at: string): Promise<void> {
  const body = { metadata: { annotations: { 'topolvm.io/resize-requested-at': at }, generation: at }, spec: { size } };
  await api.patch(logicalVolumes, 'pvc-1', { type: 'merge', body });
}

const answers = (at: string) => (volume: StoredLogicalVolume | undefined) => volume?.status?.answeredResize === at;

test('a volume grows with one write, and says which request it answers', async (t) => {
  const { api, ssd, volumes, answered } = node(t);
  await api.create(logicalVolumes, wish);
  await answered();
  api.calls.length = 0;
  await ask(api, '2Ki', 'noon');
  const volume = await volumes.until('pvc-1', answers('noon'), never);
  const status = { volumeID: 'uid-1', currentSize: '2Ki', code: 0, message: '', answeredResize: 'noon' };
  assert.deepEqual(volume?.status, status);
  assert.equal(ssd.get('uid-1')?.sizeBytes, 2048n);
  assert.deepEqual(api.calls, ['patch pvc-1', 'patch pvc-1/status']);
});

test('a volume that cannot grow says so at once, keeps what it has, and grows when there is room', async (t) => {
  const { api, ssd, volumes, answered } = node(t);
  await ssd.create({ id: 'other', sizeBytes: 2048n, tags: [] });
  await api.create(logicalVolumes, wish);
  await answered();
  await ask(api, '3Ki', 'noon');
  const failed = await volumes.until('pvc-1', answers('noon'), never);
  assert.equal(failed?.status?.code, 8);
  assert.equal(failed.status.currentSize, '1Ki');
  assert.equal(failed.status.volumeID, 'uid-1');

  await ask(api, '3Ki', 'one');
  assert.equal((await volumes.until('pvc-1', answers('one'), never))?.status?.code, 8, 'each request is answered');
  api.calls.length = 0;
  await ssd.create({ id: 'small', sizeBytes: 1n, tags: [] });
  await settled();
  assert.deepEqual(api.calls, [], 'still no room is no news');

  await ssd.remove('other');
  const grown = await volumes.until('pvc-1', (volume) => volume?.status?.code === 0, never);
  assert.equal(grown?.status?.currentSize, '3Ki');
});

test('a wish to grow that is withdrawn leaves no complaint behind', async (t) => {
  const { api, volumes, answered } = node(t);
  await api.create(logicalVolumes, wish);
  await answered();
  await ask(api, '1Gi', 'noon');
  await volumes.until('pvc-1', answers('noon'), never);
  await ask(api, '1Ki', 'one');
  const volume = await volumes.until('pvc-1', (current) => current?.status?.code === 0, never);
  assert.equal(volume?.status?.message, '');
  assert.equal(volume.status.currentSize, '1Ki');
});

test('a volume whose size was not told is measured, and grown if it is wanted larger', async (t) => {
  const { api, hdd, volumes } = node(t);
  await hdd.create({ id: 'old-name', sizeBytes: 512n, tags: [] });
  await api.create(logicalVolumes, { ...wish, status: { volumeID: 'old-name' } });
  const volume = await volumes.until('pvc-1', (current) => current?.status?.currentSize === '1Ki', never);
  assert.equal(volume?.status?.volumeID, 'old-name');
});

test('a copy is made where its source is, ro as large as that, rw as large as asked', async (t) => {
  const { api, ssd, hdd, answered } = node(t);
  await api.create(logicalVolumes, { ...wish, spec: { ...wish.spec, name: 'PVC-1', deviceClass: 'hdd' } });
  const sourceId = (await answered())?.status?.volumeID;
  const copy = (name: string, spec: Partial<LogicalVolume['spec']>, annotations: Record<string, string> = {}) =>
    api.create(logicalVolumes, {
      metadata: { ...wish.metadata, name, annotations },
      spec: { ...wish.spec, name, source: 'PVC-1', ...spec },
    });

  await copy('snapshot-1', { accessType: 'ro', size: '9Gi' });
  const snapshot = hdd.get((await answered('snapshot-1'))?.status?.volumeID ?? '');
  assert.deepEqual([snapshot?.origin, snapshot?.readOnly, snapshot?.sizeBytes], [sourceId, true, 1024n]);

  await copy('clone', { accessType: 'rw', size: '2Ki' });
  const clone = hdd.get((await answered('clone'))?.status?.volumeID ?? '');
  assert.deepEqual([clone?.origin, clone?.readOnly, clone?.sizeBytes], [sourceId, false, 2048n]);

  const restored = { 'moorage.dev/content-source': `snapshot/${snapshot?.id}` };
  await copy('restored', { accessType: 'rw', source: 'gone-by-now' }, restored);
  assert.equal(hdd.get((await answered('restored'))?.status?.volumeID ?? '')?.origin, snapshot?.id);
  assert.deepEqual(ssd.list(), []);
});

test('the class of lvcreate options that is wished for reaches the pool', async (t) => {
  const { api, ssd, answered } = node(t);
  const create = t.mock.method(ssd, 'create');
  await api.create(logicalVolumes, { ...wish, spec: { ...wish.spec, lvcreateOptionClass: 'raid' } });
  await answered();
  assert.equal(create.mock.calls[0]?.arguments[0].optionClass, 'raid');
});

test('what a power loss left of a copy is answered, not tried for ever; its removal clears the way', async (t) => {
  const { api, ssd, answered, gone } = node(t);
  await api.create(logicalVolumes, wish);
  await answered();
  const copy = { metadata: { ...wish.metadata, name: 'copy' }, spec: { ...wish.spec, name: 'copy', source: 'pvc-1' } };
  ssd.failure = new VolumeInactive('uid-2', 'its thin pool does not know it');
  await api.create(logicalVolumes, copy);
  assert.equal((await answered('copy'))?.status?.code, 9);
  await api.delete(logicalVolumes, 'copy');
  await gone('copy');
  await api.create(logicalVolumes, copy);
  assert.equal((await answered('copy'))?.status?.code, 0);
});

test('a removal that was refused is tried again as soon as a pool changes', async (t) => {
  const { api, ssd, volumes, answered, gone } = node(t);
  await ssd.create({ id: 'snapshot', sizeBytes: 1n, tags: [] });
  await api.create(logicalVolumes, wish);
  await answered();
  ssd.failure = new VolumeHasSnapshots('uid-1', ['snapshot']);
  await api.delete(logicalVolumes, 'pvc-1');
  await volumes.until('pvc-1', (volume) => volume?.status?.code === 9, never);
  await settled();
  await ssd.remove('snapshot');
  await gone(); // and no clock has advanced
});

test('an object of TopoLVM, which leaves out what is zero, is told of its failure as well', async (t) => {
  const { api, ssd, volumes } = node(t);
  await ssd.create({ id: 'old', sizeBytes: 1024n, tags: [] });
  const status = { volumeID: 'old', currentSize: '1Ki' };
  await api.create(logicalVolumes, { ...wish, spec: { ...wish.spec, size: '1Gi' }, status });
  const volume = await volumes.until('pvc-1', (current) => current?.status?.code === 8, never);
  assert.equal(volume?.status?.volumeID, 'old');
});
