import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { type Filesystem, filesystems } from './filesystem.ts';
import { parseSuperblock, superblockReader } from './superblock.ts';

const gibi = 1024n ** 3n;

function block(write: (view: DataView) => void): Uint8Array {
  const bytes = new Uint8Array(1024);
  write(new DataView(bytes.buffer));
  return bytes;
}

/** As mkfs writes them for a filesystem of 64 TiB, which needs more than 32 bits. */
const written: Readonly<Record<Filesystem, Uint8Array>> = {
  ext4: block((view) => {
    view.setUint16(0x38, 0xef53, true);
    view.setUint32(0x18, 2, true); // 4 KiB
    view.setUint32(0x60, 0x80, true); // 64 bits
    view.setUint32(0x04, 0, true);
    view.setUint32(0x150, 4, true);
  }),
  xfs: block((view) => {
    view.setUint32(0, 0x58465342);
    view.setUint32(4, 4096);
    view.setBigUint64(8, (65_536n * gibi) / 4096n);
  }),
  btrfs: block((view) => {
    view.setBigUint64(0x40, 0x4d5f53665248425fn, true);
    view.setBigUint64(0xd1, 65_536n * gibi, true);
  }),
};

test('kind and size are read from the superblock', () => {
  for (const filesystem of filesystems) {
    assert.deepEqual(parseSuperblock(filesystem, written[filesystem]), {
      filesystem,
      sizeBytes: 65_536n * gibi,
      isUnfinished: false,
    });
  }
});

test('an unfinished mkfs.xfs is detected', () => {
  const bytes = written.xfs.slice();
  bytes[126] = 1;
  assert.equal(parseSuperblock('xfs', bytes)?.isUnfinished, true);
});

test('without the 64-bit feature the upper half of the size is ignored', () => {
  const bytes = written.ext4.slice();
  new DataView(bytes.buffer).setUint32(0x60, 0, true);
  new DataView(bytes.buffer).setUint32(0x04, 10, true);
  assert.equal(parseSuperblock('ext4', bytes)?.sizeBytes, 40_960n);
});

test('other filesystems, zeros and random bytes are not superblocks', () => {
  for (const wanted of filesystems) {
    for (const other of filesystems.filter((kind) => kind !== wanted)) {
      assert.equal(parseSuperblock(wanted, written[other]), undefined);
    }
    assert.equal(parseSuperblock(wanted, new Uint8Array(1024)), undefined);
  }
  const bytes = fc.uint8Array({ minLength: 1024, maxLength: 1024 });
  fc.assert(
    fc.property(bytes, fc.constantFrom('xfs', 'btrfs'), (random, kind: Filesystem) => {
      assert.equal(parseSuperblock(kind, random), undefined);
    }),
  );
});

test('hung disks delay only their own readers', async () => {
  const leaving = new AbortController();
  const hanging = Promise.withResolvers<Uint8Array>();
  const read = superblockReader((devicePath) =>
    devicePath.startsWith('/dev/hung/') ? hanging.promise : Promise.resolve(written.xfs),
  );
  const { signal } = new AbortController();
  const asked = Array.from({ length: 8 }, (_, i) => read(`/dev/hung/${i}`, 'xfs', leaving.signal));
  leaving.abort(new Error('deadline'));
  for (const one of asked) await assert.rejects(one, /deadline/);
  assert.equal(await read('/dev/hung/9', 'xfs', signal), 'busy', 'no more threads than these wait for the disk');
  assert.notEqual(await read('/dev/sound/0', 'xfs', signal), 'busy');

  hanging.resolve(written.xfs);
  await hanging.promise;
  await new Promise(setImmediate);
  assert.notEqual(await read('/dev/hung/9', 'xfs', signal), 'busy');
});

test('a hung device is not read again before it has answered', async () => {
  const hanging = Promise.withResolvers<Uint8Array>();
  const read = superblockReader(() => hanging.promise);
  const { signal } = new AbortController();
  const first = read('/dev/mapper/luks', 'xfs', signal);
  assert.equal(await read('/dev/mapper/luks', 'xfs', signal), 'busy');
  hanging.resolve(written.xfs);
  assert.notEqual(await first, 'busy');
});
