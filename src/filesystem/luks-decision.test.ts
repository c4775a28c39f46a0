import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createdTag, encryptedTag, filesystemTag } from '../engine/names-and-tags.ts';
import type { Volume } from '../engine/pool.ts';
import { filesystemUuid } from './format.ts';
import { decideEncryption } from './luks.ts';
import type { Probe } from './probe.ts';

function volume(...tags: string[]): Volume {
  return { id: 'v', sizeBytes: 1n, devicePath: '/dev/vg/v', tags: [createdTag, ...tags], readOnly: false, attr: '' };
}
const found = (filesystem: string, uuid: string): Probe => ({ kind: 'found', filesystem, uuid });
const ours = filesystemUuid('v');

test('a header is written only to an empty device that was never used', () => {
  assert.equal(decideEncryption(volume(), { kind: 'empty' }), 'format');
  assert.throws(() => decideEncryption(volume(encryptedTag), { kind: 'empty' }), { name: 'FilesystemVanished' });
  assert.throws(() => decideEncryption(volume(filesystemTag('xfs')), { kind: 'empty' }), {
    name: 'FilesystemVanished',
  });
  assert.throws(() => decideEncryption(volume(), { kind: 'unknown', reason: 'EIO' }), { name: 'DeviceUnreadable' });
  assert.throws(() => decideEncryption(volume(), found('ext4', ours)), { name: 'FilesystemMismatch' });
});

test('our own header is kept, recognised by the tag or, after a crash before the tag, by its UUID', () => {
  assert.equal(decideEncryption(volume(encryptedTag), found('crypto_LUKS', 'of the original')), 'keep');
  assert.equal(decideEncryption(volume(), found('crypto_LUKS', ours)), 'keep');
});

test('a header that an earlier volume left at the same place on the disk is not ours', () => {
  assert.throws(() => decideEncryption(volume(), found('crypto_LUKS', 'other')), { name: 'FilesystemForeign' });
});
