import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLog } from '../base/testing/silent-log.ts';
import { adoptedTag, createdTag, encryptedTag, filesystemTag, rawTag } from '../engine/names-and-tags.ts';
import { InMemoryPool } from '../engine/testing/in-memory-pool.ts';
import { volumeOf } from '../engine/testing/volume-of.ts';
import { superblockReader } from '../filesystem/probe.ts';
import { VolumeKeys } from '../filesystem/volume-keys.ts';
import { EncryptedVolumes } from './encrypted-volumes.ts';

const { signal } = new AbortController();
const keys = (current: string, previous?: string) =>
  new VolumeKeys(Buffer.from(current), previous === undefined ? undefined : Buffer.from(previous));

/** One volume in memory, and a record of what is done with it. */
async function volumes({
  isOpen = false,
  tags = [],
  head = '',
}: {
  isOpen?: boolean;
  tags?: readonly string[];
  head?: string;
} = {}) {
  const pool = new InMemoryPool('ssd', 1024n ** 3n);
  await pool.create({ id: 'v', sizeBytes: 4096n, tags: [] });
  if (tags.length > 0) await pool.addTags('v', tags);
  const steps: string[] = [];
  const text = (key: Uint8Array | undefined) => (key ? Buffer.from(key).toString() : 'nothing');
  const encrypted = new EncryptedVolumes({
    luks: {
      format: async (_, id, key) => {
        steps.push(`format with ${text(key)}`);
        return pool.addTags(id, [encryptedTag]);
      },
      open: async (_, key) => {
        steps.push(`open with ${text(key)}`);
        return '';
      },
      close: async ({ id }) => void steps.push(`close ${id}`),
      resize: async (_, key) => void steps.push(`resize with ${text(key)}`),
      changeKey: async (_, old, key) => {
        steps.push(`change ${text(old)} to ${text(key)}`);
        return 'changed';
      },
      isOpen: async () => isOpen,
    },
    superblock: superblockReader(async () => Buffer.concat([Buffer.from(head, 'latin1'), Buffer.alloc(1024)])),
    log: silentLog,
    deviceSize: async () => 4000n,
  });
  return { pool, encrypted, steps };
}

test('an open volume has the device, size and tags of its decrypted contents', async () => {
  const { pool, encrypted } = await volumes({ tags: [filesystemTag('ext4')] });
  const opened = await encrypted.open(pool, 'v', keys('k'), signal);
  const { devicePath, sizeBytes, tags } = opened;
  assert.deepEqual([devicePath, sizeBytes], ['/dev/mapper/moorage-luks-v', 4000n]);
  assert.deepEqual(tags, [filesystemTag('ext4')]);
  assert.ok(pool.get('v')?.tags.includes(encryptedTag));
});

for (const [what, state, given, expected] of [
  ['a new volume is encrypted and opened', {}, keys('k'), ['format with k', 'open with k']],
  ['an open volume needs no key', { isOpen: true, tags: [encryptedTag] }, undefined, []],
  ['an open volume is opened again with a key', { isOpen: true, tags: [encryptedTag] }, keys('k'), ['open with k']],
  [
    'a previous key is replaced before the volume is opened',
    { tags: [encryptedTag] },
    keys('new', 'old'),
    ['format with new', 'change old to new', 'open with new'],
  ],
  [
    'a previous key is replaced while the volume is open',
    { isOpen: true, tags: [encryptedTag] },
    keys('new', 'old'),
    ['change old to new', 'open with new'],
  ],
] as const) {
  test(what, async () => {
    const { pool, encrypted, steps } = await volumes(state);
    await encrypted.open(pool, 'v', given, signal);
    assert.deepEqual(steps, expected);
  });
}

test('without a key nothing is encrypted or opened, and the error names the Secret', async () => {
  for (const tags of [[], [encryptedTag]]) {
    const { pool, encrypted, steps } = await volumes({ tags });
    await assert.rejects(encrypted.open(pool, 'v', undefined, signal), {
      name: 'KeyMissing',
      message: /entry passphrase.*csi\.storage\.k8s\.io\/node-stage-secret-name/,
    });
    assert.deepEqual(steps, []);
  }
});

test('a header without a tag keeps a volume that we created from being published raw for the first time', async () => {
  const head = 'LUKS\xba\xbe';
  for (const [tags, isRefused] of [
    [[createdTag], true],
    [[createdTag, rawTag], false],
    [[adoptedTag], false],
  ] as const) {
    const { pool, encrypted } = await volumes({ tags, head });
    const checked = encrypted.mustBePlain(volumeOf(pool, 'v'), signal);
    await (isRefused ? assert.rejects(checked, { name: 'FilesystemForeign' }) : checked);
  }
  const { pool, encrypted } = await volumes({ tags: [createdTag] });
  await encrypted.mustBePlain(volumeOf(pool, 'v'), signal);
});

test('growth passes on the key that it has, and replaces a previous one', async () => {
  const { pool, encrypted, steps } = await volumes({ isOpen: true, tags: [encryptedTag] });
  const volume = volumeOf(pool, 'v');
  assert.equal((await encrypted.grow(volume, undefined, signal)).sizeBytes, 4000n);
  await encrypted.grow(volume, keys('new', 'old'), signal);
  assert.deepEqual(steps, ['resize with nothing', 'change old to new', 'resize with new']);
});

test('keys are the bytes of a Secret, as they are, and are overwritten', () => {
  const text = { passphrase: 'fünf\n', 'previous-passphrase': 'vier' };
  const inCall = VolumeKeys.in(text, 'utf8') ?? assert.fail();
  assert.deepEqual([inCall.current, inCall.previous], [Buffer.from('fünf\n'), Buffer.from('vier')]);
  const bytes = Buffer.from([0, 255, 10, 0]);
  {
    using inSecret = VolumeKeys.in({ passphrase: bytes.toString('base64') }, 'base64') ?? assert.fail();
    assert.deepEqual([inSecret.current, inSecret.previous], [bytes, undefined]);
  }
  inCall[Symbol.dispose]();
  assert.deepEqual([inCall.current, inCall.previous], [Buffer.alloc(6), Buffer.alloc(4)]);
  for (const entries of [{}, { passphrase: '' }, { 'previous-passphrase': 'vier' }]) {
    assert.equal(VolumeKeys.in(entries, 'utf8'), undefined);
  }
});
