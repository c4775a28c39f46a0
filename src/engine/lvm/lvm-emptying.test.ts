import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Eraser, ErasureTarget } from '../erase/eraser.ts';
import { createdTag, emptyingTag, filesystemTag, unusedTag } from '../names-and-tags.ts';
import { openThick, signal, extent as sizeBytes } from './testing/simulated-pools.ts';

const owner = 'moorage.dev/local-pv-uid=1';
const zero = { kind: 'zero' } as const;

/** A thick pool with volume `a`, which has a filesystem. The test decides when and how its erasure ends. */
async function setUp() {
  const targets: ErasureTarget[] = [];
  let ends = Promise.withResolvers<void>();
  let started = Promise.withResolvers<void>();
  const erase: Eraser['erase'] = async (target, _policy, _fromBytes, _onClean, signal) => {
    targets.push(target);
    started.resolve();
    await ends.promise;
    await target.mustBeSame(signal);
  };
  const { pool, lvm } = await openThick({ eraser: { erase } });
  await pool.create({ id: 'a', sizeBytes, tags: [owner] }, signal);
  await pool.addTags('a', [filesystemTag('ext4')], signal);
  const again = () => {
    [ends, started] = [Promise.withResolvers(), Promise.withResolvers()];
  };
  return { pool, lvm, targets, started: () => started.promise, ends: () => ends, again };
}

test('a volume that is emptied cannot be used meanwhile, and is then as if newly created', async () => {
  const { pool, lvm, targets, started, ends } = await setUp();
  const { freeBytes } = pool.capacity();
  const calls = [pool.empty('a', zero, signal), pool.empty('a', { kind: 'shred', passes: 1 }, signal)];
  await started();
  assert.deepEqual([pool.list(), pool.get('a'), pool.erasures().length], [[], undefined, 1]);
  for (const attempt of [
    () => pool.create({ id: 'a', sizeBytes, tags: [owner] }, signal),
    () => pool.grow('a', 2n * sizeBytes, signal),
    () => pool.addTags('a', ['other'], signal),
  ]) {
    await assert.rejects(attempt(), { name: 'VolumeBeingErased' });
  }
  ends().resolve();
  const [one, other] = await Promise.all(calls);
  assert.deepEqual(one, other);
  assert.deepEqual(one?.tags, [owner, createdTag, unusedTag]);
  assert.deepEqual([one?.sizeBytes, pool.capacity().freeBytes, pool.erasures()], [sizeBytes, freeBytes, []]);
  assert.deepEqual(
    targets.map(({ isKept }) => isKept),
    [true],
  );
  lvm.commands.length = 0;
  assert.equal(await pool.create({ id: 'a', sizeBytes, tags: [owner] }, signal), one); // not created again
  assert.deepEqual(lvm.commands, []);
});

test('a removal waits until the volume is empty, then removes it', async () => {
  const { pool, lvm, started, ends } = await setUp();
  const emptied = pool.empty('a', zero, signal);
  await started();
  const removed = pool.remove('a', signal);
  ends().resolve();
  assert.equal((await emptied).id, 'a');
  assert.equal(await removed, 'removed');
  assert.deepEqual([...lvm.volumes.keys()], []);
});

test('a failure is reported, the volume stays unusable, and a retry completes it', async () => {
  const { pool, lvm, started, ends, again } = await setUp();
  const failing = pool.empty('a', zero, signal);
  await started();
  ends().reject(new Error('disk broken'));
  await assert.rejects(failing, /disk broken/);
  assert.equal(pool.get('a'), undefined);
  assert.ok(lvm.volumes.get('a')?.tags.includes(emptyingTag));

  again();
  let refusals = 1;
  lvm.fails = (subcommand) => (subcommand === 'lvchange' && refusals-- > 0 ? 'before' : undefined);
  ends().resolve();
  await assert.rejects(pool.empty('a', zero, signal), { name: 'CommandFailed' }); // it is clean, but still marked
  assert.equal(pool.get('a'), undefined);
  assert.deepEqual((await pool.empty('a', zero, signal)).tags, [owner, createdTag, unusedTag]);
});

test('only the volume that was marked becomes usable', async () => {
  const { pool, lvm, started, ends } = await setUp();
  const emptied = pool.empty('a', zero, signal);
  await started();
  lvm.volumes.delete('a');
  lvm.addForeign('a', 1);
  lvm.volumes.get('a')?.tags.push(emptyingTag); // as if it had been copied with all its tags
  ends().resolve();
  await assert.rejects(emptied, { name: 'ErasureCancelled' });
  assert.deepEqual(lvm.volumes.get('a')?.tags, [emptyingTag]);
});

test('a copy, a missing volume and one that is being removed are not emptied', async () => {
  const { pool, lvm, started, ends } = await setUp();
  await assert.rejects(pool.empty('b', zero, signal), { name: 'VolumeNotFound' });
  await assert.rejects(pool.empty('a', { kind: 'none' }, signal), { name: 'InvalidInput' });
  lvm.addForeign('copy', 1);
  lvm.volumes.get('copy')?.tags.push('moorage.dev/source=a', 'moorage.dev/copied');
  await assert.rejects(pool.empty('copy', zero, signal), {
    name: 'NotToBeEmptied',
    message: /is a copy of a; use a new volume instead/,
  });
  assert.ok(!lvm.volumes.get('copy')?.tags.includes(emptyingTag));

  await pool.addTags('a', ['moorage.dev/on-removal=zero'], signal);
  const removal = pool.remove('a', signal);
  await started();
  await assert.rejects(pool.empty('a', zero, signal), { name: 'VolumeBeingErased' });
  ends().resolve();
  assert.equal(await removal, 'erased');
});

test('a volume that others created, without any tag, can be tagged, grown, emptied and removed', async () => {
  const { pool, lvm, ends } = await setUp();
  ends().resolve();
  lvm.addForeign('theirs', 1);
  await pool.refresh(signal);
  assert.deepEqual(pool.get('theirs')?.tags, []);
  await pool.addTags('theirs', [owner, 'moorage.dev/adopted'], signal);
  assert.equal((await pool.grow('theirs', 2n * sizeBytes, signal)).sizeBytes, 2n * sizeBytes);
  assert.deepEqual((await pool.empty('theirs', zero, signal)).tags, [owner, createdTag, unusedTag]);
  assert.equal(await pool.remove('theirs', signal), 'removed');
});
