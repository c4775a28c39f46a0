import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  checkAddedTags,
  checkNewTags,
  checkNewVolume,
  checkTags,
  checkVolumeId,
  replacedTags,
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

test('tags are strings that LVM accepts', () => {
  checkTags(['moorage.dev/filesystem=ext4', 'ephemeral', 'a:b#c&d!e']);
  for (const tag of ['', '-a', 'a b', 'a,b', 'a@b', '"'])
    assert.throws(() => checkTags([tag]), { name: 'InvalidInput' }, tag);
});

test('a caller cannot set the tags that pools act on', () => {
  checkNewTags(['a', 'moorage.dev/claim=ns/a', 'moorage.dev/volume=pvc-1', 'moorage.dev/created']);
  checkAddedTags(['a', 'moorage.dev/filesystem=ext4', 'moorage.dev/encrypted=luks2']);
  for (const name of ['source=x', 'erasing', 'erase=zero', 'erased=1', 'anything']) {
    assert.throws(() => checkNewTags(['a', `moorage.dev/${name}`]), { name: 'InvalidInput' }, name);
    assert.throws(() => checkAddedTags(['a', `moorage.dev/${name}`]), { name: 'InvalidInput' }, name);
  }
  assert.throws(() => checkNewTags(['moorage.dev/filesystem=ext4']), { name: 'InvalidInput' });
});

test('the tags of a move are set by callers and replace each other; of all tags only they can be removed', () => {
  checkNewTags(['moorage.dev/receiving=1']);
  assert.throws(() => checkNewTags(['moorage.dev/moving=1']), { name: 'InvalidInput' });
  checkAddedTags(['moorage.dev/moving=1', 'moorage.dev/receiving=1', 'moorage.dev/position=a::0']);
  assert.throws(() => checkAddedTags(['moorage.dev/checkpoint=data']), { name: 'InvalidInput' });
  const tags = ['a', 'moorage.dev/moving=1', 'moorage.dev/position=a::0', 'moorage.dev/claim=ns/a'];
  assert.deepEqual(replacedTags(tags, ['moorage.dev/position=b::0']), ['moorage.dev/position=a::0']);
  assert.deepEqual(withoutMoveTags(tags, ['moorage.dev/moving', 'moorage.dev/position']), [
    'a',
    'moorage.dev/claim=ns/a',
  ]);
  assert.throws(() => withoutMoveTags(tags, ['moorage.dev/claim']), { name: 'InvalidInput' });
});

test('a volume of size zero is refused', () => {
  assert.throws(() => checkNewVolume({ id: 'a', sizeBytes: 0n, tags: [] }), { name: 'InvalidInput' });
});
