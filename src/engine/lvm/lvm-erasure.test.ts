import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ErasePolicy } from '../config/device-classes.ts';
import type { Eraser } from '../erase/eraser.ts';
import { progressedTags } from '../erase/erasure-tags.ts';
import { encryptedTag, erasingTag } from '../names-and-tags.ts';
import { openThick, openThin, signal, extent as sizeBytes, volume } from './testing/simulated-pools.ts';

/** A thick class that erases, on simulated LVM; the test provides the eraser. */
function open(erase: Eraser['erase']) {
  return openThick({ erase: { kind: 'zero' }, eraser: { erase } });
}

test('tags of an earlier erasure do not make a new one skip data', async () => {
  const erased: { policy: string; fromBytes: bigint }[] = [];
  const erase: Eraser['erase'] = async (_target, { kind }, fromBytes) => void erased.push({ policy: kind, fromBytes });
  const { pool, lvm } = await open(erase);
  await pool.create({ id: 'a', sizeBytes, tags: [] }, signal);
  lvm.volumes.get('a')?.tags.push(...progressedTags(['moorage.dev/erase=none'], 4096n));
  lvm.sequenceNumber++;
  assert.equal(await pool.remove('a', signal), 'erased');
  assert.equal(await pool.remove('a', signal), 'absent');
  assert.deepEqual(erased, [{ policy: 'zero', fromBytes: 0n }]);
});

test("a volume's own policy comes before that of its class, also if somebody else sets it just before the removal", async () => {
  for (const [classPolicy, own, removal, policy] of [
    ['none', 'zero', 'erased', { kind: 'zero' }],
    ['none', 'shred', 'erased', { kind: 'shred', passes: 3 }],
    ['zero', 'none', 'removed', undefined],
    ['zero', 'default', 'erased', { kind: 'zero' }],
  ] as const) {
    const erased: ErasePolicy[] = [];
    const eraser: Pick<Eraser, 'erase'> = { erase: async (_target, policy) => void erased.push(policy) };
    const { pool, lvm } = await openThick({ erase: { kind: classPolicy }, eraser });
    const tag = `moorage.dev/on-removal=${own}`;
    await pool.create({ id: 'a', sizeBytes, tags: [tag] }, signal);
    await pool.create({ id: 'b', sizeBytes, tags: ['moorage.dev/on-removal=discard'] }, signal);
    await pool.addTags('b', [tag], signal);
    await pool.create({ id: 'c', sizeBytes, tags: [] }, signal);
    lvm.volumes.get('c')?.tags.push(tag);
    lvm.sequenceNumber++;
    for (const id of ['a', 'b', 'c']) assert.equal(await pool.remove(id, signal), removal);
    assert.deepEqual(erased, policy ? [policy, policy, policy] : []);
    assert.deepEqual([...lvm.volumes.keys()], []);
  }
});

test('progress is not recorded on a volume that lost its mark', async () => {
  const { pool, lvm } = await open(async (_target, _policy, _fromBytes, onClean) => {
    const volume = lvm.volumes.get('a') ?? assert.fail('the volume is gone');
    volume.tags = volume.tags.filter((tag) => tag !== erasingTag);
    lvm.sequenceNumber++;
    await onClean(sizeBytes / 2n);
  });
  await pool.create({ id: 'a', sizeBytes, tags: [] }, signal);
  await assert.rejects(pool.remove('a', signal), { name: 'ErasureCancelled', code: 'Aborted' });
  assert.ok(!lvm.volumes.get('a')?.tags.some((tag) => tag.startsWith('moorage.dev/erased=')));
});

test('a volume that replaces one being erased is not erased, and its name cannot be used meanwhile', async () => {
  const started = Promise.withResolvers<void>();
  const goOn = Promise.withResolvers<void>();
  const destroyed: string[] = [];
  const { pool, lvm } = await open(async (target, _policy, _fromBytes, onClean, signal) => {
    started.resolve();
    await goOn.promise;
    await target.mustBeSame(signal);
    destroyed.push(target.path);
    await onClean(target.sizeBytes);
  });
  await pool.create({ id: 'a', sizeBytes, tags: [] }, signal);
  const removal = pool.remove('a', signal);
  await started.promise;
  lvm.volumes.delete('a');
  lvm.sequenceNumber++;
  await assert.rejects(pool.create({ id: 'a', sizeBytes, tags: [] }, signal), { name: 'VolumeBeingErased' });
  lvm.addForeign('a', 1);
  lvm.volumes.get('a')?.tags.push(erasingTag); // as if it had been copied with all its tags
  goOn.resolve();
  await assert.rejects(removal, { name: 'ErasureCancelled' });
  assert.deepEqual([destroyed, [...lvm.volumes.keys()], pool.erasures()], [[], ['a'], []]);
});

test('a name is free again after somebody removed the volume being erased', async () => {
  const { pool, lvm } = await open(async (target, _policy, _fromBytes, _onClean, signal) => {
    lvm.volumes.delete('a');
    lvm.sequenceNumber++;
    await target.mustBeSame(signal);
  });
  await pool.create({ id: 'a', sizeBytes, tags: [] }, signal);
  await assert.rejects(pool.remove('a', signal), { name: 'ErasureCancelled' });
  await pool.remove('a', signal);
  await pool.create({ id: 'a', sizeBytes, tags: [] }, signal);
  assert.equal(pool.get('a')?.id, 'a');
});

test('the keys of an encrypted volume are destroyed even if its class erases nothing', async () => {
  const seen: string[] = [];
  const erase: Eraser['erase'] = async ({ hasHeader }, { kind }) => void seen.push(`${kind}, header ${hasHeader?.()}`);
  const { pool, lvm } = await openThick({ eraser: { erase } });
  for (const id of ['plain', 'encrypted']) await pool.create(volume(id), signal);
  await pool.addTags('encrypted', [encryptedTag], signal);
  for (const id of ['plain', 'encrypted']) assert.equal(await pool.remove(id, signal), 'removed');
  assert.deepEqual(seen, ['none, header true']);
  assert.deepEqual([...lvm.volumes.keys()], []);
});

test('a thin volume whose header is in shared blocks, or whose pool is nearly full, is removed without a write', async () => {
  for (const [dataPercent, copies, isErased] of [
    [10, [], true],
    [10, ['copy'], false],
    [96, [], false],
  ] as const) {
    const erased: string[] = [];
    const { pool, lvm } = await openThin({ eraser: { erase: async ({ path }) => void erased.push(path) } });
    await pool.create(volume('a'), signal);
    await pool.addTags('a', [encryptedTag], signal);
    for (const id of copies) await pool.snapshot('a', { id, tags: [], access: 'rw' }, signal);
    lvm.usage = { dataPercent, metadataPercent: 0 };
    await pool.refresh(signal);
    for (const id of ['a', ...copies]) assert.equal(await pool.remove(id, signal), 'removed');
    assert.equal(erased.length > 0, isErased, `${dataPercent} % and ${copies.length} copies`);
  }
});
