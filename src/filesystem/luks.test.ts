import assert from 'node:assert/strict';
import { test } from 'node:test';
import { adoptedTag, createdTag, encryptedTag, filesystemTag, rawTag } from '../engine/names-and-tags.ts';
import type { Volume } from '../engine/pool.ts';
import { filesystemUuid } from './format.ts';
import { decideEncryption } from './luks.ts';
import type { Probe } from './probe.ts';

function volume(...tags: string[]): Volume {
  return { id: 'v', sizeBytes: 1n, devicePath: '/dev/vg/v', tags, readOnly: false, attr: '' };
}
const found = (filesystem: string, uuid: string, label?: string): Probe => ({
  ...{ kind: 'found', filesystem, uuid },
  ...(label && { label }),
});
const ours = filesystemUuid('v');
const empty: Probe = { kind: 'empty' };

for (const [what, tags, probe, decision] of [
  ['an empty new volume', [createdTag], empty, 'format'],
  ['an encrypted volume that reads as empty', [createdTag, encryptedTag], empty, 'FilesystemVanished'],
  ['a formatted volume that reads as empty', [createdTag, filesystemTag('xfs')], empty, 'FilesystemVanished'],
  ['a volume that was published raw', [createdTag, rawTag], empty, 'UsedRaw'],
  ['an adopted volume that reads as empty', [adoptedTag], empty, 'AdoptedWithoutFilesystem'],
  ['a volume that cannot be read', [createdTag], { kind: 'unknown', reason: 'EIO' }, 'DeviceUnreadable'],
  ['a filesystem of ours', [createdTag], found('ext4', ours), 'FilesystemMismatch'],
  ['a filesystem of an adopted volume', [adoptedTag], found('ext4', 'theirs'), 'FilesystemMismatch'],
  ['our header', [createdTag, encryptedTag], found('crypto_LUKS', ours), 'keep'],
  ['the header of a copy', [createdTag, encryptedTag], found('crypto_LUKS', 'of the original'), 'keep'],
  ['our header after a crash before the tag', [createdTag], found('crypto_LUKS', ours), 'keep'],
  [
    'our header after a crash before it was finished',
    [createdTag],
    found('crypto_LUKS', ours, 'moorage-unfinished'),
    'format',
  ],
  [
    'a tagged header with the label',
    [createdTag, encryptedTag],
    found('crypto_LUKS', ours, 'moorage-unfinished'),
    'keep',
  ],
  [
    'an unfinished header of another volume',
    [createdTag],
    found('crypto_LUKS', 'other', 'moorage-unfinished'),
    'FilesystemForeign',
  ],
  ['what an earlier volume left on the disk', [createdTag], found('crypto_LUKS', 'other'), 'FilesystemForeign'],
  ['the header of an adopted volume', [adoptedTag], found('crypto_LUKS', 'theirs'), 'keep'],
] as const) {
  test(`encryption of ${what}: ${decision}`, () => {
    const decide = () => decideEncryption(volume(...tags), probe);
    if (decision === 'format' || decision === 'keep') assert.equal(decide(), decision);
    else assert.throws(decide, { name: decision, code: 'FailedPrecondition' });
  });
}
