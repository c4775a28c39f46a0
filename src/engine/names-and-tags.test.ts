import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  checkAddedTags,
  checkNewTags,
  checkNewVolume,
  checkTags,
  checkVolumeGroup,
  checkVolumeId,
  createdTag,
  isProvenUnused,
  newVolumeTags,
  retiredTag,
  unusedTag,
  withAddedTags,
  withoutMoveTags,
} from './names-and-tags.ts';

test('ids are names that LVM accepts', () => {
  for (const id of ['5f0c2d1e-8f0b-4d0c-9d1e-000000000001', 'a', 'my_volume.1+2', '.hidden']) checkVolumeId(id);
  const refused = [
    '',
    '-a',
    '.',
    '..',
    'a/b',
    '../a',
    'a b',
    'ä',
    'a\n',
    'snapshot1',
    'pvmove0',
    'x_tmeta',
    'a_rimage_0',
    'x'.repeat(101),
  ];
  for (const id of refused) assert.throws(() => checkVolumeId(id), { name: 'InvalidInput' }, id);
});

test('names of volume groups are those that LVM accepts', () => {
  for (const name of ['vg0', 'storage_bulk', '.a', 'x'.repeat(127)]) checkVolumeGroup(name);
  for (const name of ['', '-a', '.', '..', 'a/b', 'a b', '@tag', 'x'.repeat(128)]) {
    assert.throws(() => checkVolumeGroup(name), { name: 'InvalidInput' }, name);
  }
});

test('an added owner replaces all tags of an owner of another kind, and of the same kind those with the same key', () => {
  const claim = ['moorage.dev/claim=shop/db', 'moorage.dev/volume=pvc-1'];
  const local = ['moorage.dev/local-pv=pv-1', 'moorage.dev/local-pv-uid=1'];
  assert.deepEqual(withAddedTags(['other', ...claim], local), ['other', ...local]);
  assert.deepEqual(withAddedTags([...local, 'moorage.dev/created'], claim), ['moorage.dev/created', ...claim]);
  const next = 'moorage.dev/local-pv-uid=2';
  assert.deepEqual(withAddedTags(local, [local[0] ?? '', next]), [local[0], next]);
  assert.deepEqual(withAddedTags(claim, ['other']), [...claim, 'other']);
});

test('the policy for the removal of a volume can be set, replaced and reset, but only to a known one', () => {
  const tag = (policy: string) => `moorage.dev/on-removal=${policy}`;
  for (const policy of ['none', 'discard', 'zero', 'shred', 'shred:7', 'default']) {
    checkNewTags([tag(policy)]);
    checkAddedTags([tag(policy)]);
    assert.deepEqual(withAddedTags(['a', tag('zero')], [tag(policy)]), ['a', tag(policy)]);
  }
  for (const policy of ['', 'burn', 'zero:1', 'shred:x']) {
    assert.throws(() => checkNewTags([tag(policy)]), { name: 'InvalidInput' }, policy);
  }
});

test('tags are strings that LVM accepts', () => {
  checkTags(['moorage.dev/filesystem=ext4', 'ephemeral', 'a:b#c&d!e']);
  for (const tag of ['', '-a', 'a b', 'a,b', 'a@b', '"'])
    assert.throws(() => checkTags([tag]), { name: 'InvalidInput' }, tag);
});

test('a caller cannot set the tags that pools act on', () => {
  checkNewTags(['a', 'moorage.dev/claim=ns/a', 'moorage.dev/volume=pvc-1', 'moorage.dev/created']);
  checkNewTags(['moorage.dev/local-pv=pv-1', 'moorage.dev/local-pv-uid=7a1c']);
  checkAddedTags(['a', 'moorage.dev/filesystem=ext4', 'moorage.dev/encrypted=luks2']);
  for (const name of ['source=x', 'erasing', 'erase=zero', 'erased=1', 'anything']) {
    assert.throws(() => checkNewTags(['a', `moorage.dev/${name}`]), { name: 'InvalidInput' }, name);
    assert.throws(() => checkAddedTags(['a', `moorage.dev/${name}`]), { name: 'InvalidInput' }, name);
  }
  assert.throws(() => checkNewTags(['moorage.dev/filesystem=ext4']), { name: 'InvalidInput' });
});

const owner = 'moorage.dev/volume=pvc-1';
const formatted = 'moorage.dev/filesystem=ext4';

test('a new volume is tagged as unused if its first use will be recorded, and not after that', () => {
  assert.deepEqual(newVolumeTags({ tags: ['a'] }), ['a', createdTag]);
  assert.deepEqual(newVolumeTags({ tags: [owner, createdTag] }), [owner, createdTag, unusedTag]);
  assert.deepEqual(withAddedTags([owner, unusedTag], ['a', owner]), [owner, unusedTag, 'a']);
  assert.deepEqual(withAddedTags([owner, unusedTag], [retiredTag]), [owner, unusedTag, retiredTag]);
  for (const tag of [formatted, 'moorage.dev/raw', 'moorage.dev/encrypted=luks2', 'moorage.dev/position=a::0']) {
    assert.deepEqual(withAddedTags([owner, unusedTag], [tag]), [owner, tag]);
  }
  assert.deepEqual(withAddedTags([owner, 'a'], ['moorage.dev/volume=pvc-2']), ['a', 'moorage.dev/volume=pvc-2']);
});

test('a volume that moves, or receives another one, is not proven unused', () => {
  const volume = { id: 'a', sizeBytes: 1n, devicePath: '/dev/a', readOnly: false, attr: '' };
  const tags = newVolumeTags({ tags: [owner] });
  assert.equal(isProvenUnused({ ...volume, tags }), true);
  for (const tag of ['moorage.dev/moving=1', 'moorage.dev/receiving=1']) {
    assert.equal(isProvenUnused({ ...volume, tags: [...tags, tag] }), false);
  }
});

test('the tags of a move are set by callers and replace each other; of all tags only they can be removed', () => {
  checkNewTags(['moorage.dev/receiving=1']);
  assert.throws(() => checkNewTags(['moorage.dev/moving=1']), { name: 'InvalidInput' });
  checkAddedTags(['moorage.dev/moving=1', 'moorage.dev/receiving=1', 'moorage.dev/position=a::0']);
  assert.throws(() => checkAddedTags(['moorage.dev/checkpoint=data']), { name: 'InvalidInput' });
  const tags = ['a', 'moorage.dev/moving=1', 'moorage.dev/position=a::0', 'moorage.dev/claim=ns/a'];
  assert.deepEqual(withAddedTags(tags, ['moorage.dev/position=b::0']), [
    'a',
    'moorage.dev/moving=1',
    'moorage.dev/claim=ns/a',
    'moorage.dev/position=b::0',
  ]);
  assert.deepEqual(withoutMoveTags(tags, ['moorage.dev/moving', 'moorage.dev/position']), [
    'a',
    'moorage.dev/claim=ns/a',
  ]);
  assert.throws(() => withoutMoveTags(tags, ['moorage.dev/claim']), { name: 'InvalidInput' });
});

test('a volume of size zero is refused', () => {
  assert.throws(() => checkNewVolume({ id: 'a', sizeBytes: 0n, tags: [] }), { name: 'InvalidInput' });
});
