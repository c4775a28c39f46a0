import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { btrfs } from './btrfs.ts';
import { ext4 } from './ext4.ts';
import { type Filesystem, filesystemNamed, filesystems, parseMkfsOptions } from './filesystem.ts';
import { xfs } from './xfs.ts';

const tebi = 1024n ** 4n;

test('a filesystem is found by its name', () => {
  for (const filesystem of filesystems) assert.equal(filesystemNamed(filesystem.name), filesystem);
  assert.equal(filesystemNamed('swap'), undefined);
  assert.equal(filesystemNamed(undefined), undefined);
});

test('options that lay out a filesystem are passed on unchanged', () => {
  const cases: [Filesystem, string][] = [
    [ext4, '-i 8192 -I 512 -O ^has_journal,metadata_csum -E stride=16,stripe_width=64 -m 1 -L data'],
    [xfs, '-d su=64k,sw=4 -l size=64m -i maxpct=50 -m reflink=0,crc=1 -n size=8k'],
    [btrfs, '--csum xxhash -n 16k -m dup --mixed -O no-holes,free-space-tree'],
  ];
  for (const [filesystem, text] of cases) {
    assert.deepEqual(parseMkfsOptions(filesystem, `  ${text}\n`, 'f'), text.split(' '));
  }
  assert.deepEqual(parseMkfsOptions(ext4, '', 'f'), []);
});

test('options that force mkfs, name another device or a file, create no filesystem, or lack a value are refused', () => {
  const cases: [Filesystem, string][] = [
    [ext4, '-F'],
    [ext4, '-d /etc'],
    [ext4, '-S'],
    [ext4, '-U random'],
    [ext4, '-J device=/dev/sda'],
    [ext4, '-J size=4,device=LABEL=x'],
    [ext4, '-E offset=1048576'],
    [ext4, '-O journal_dev'],
    [ext4, '-b'],
    [ext4, '-b -F'],
    [ext4, '/dev/sda'],
    [ext4, '-i 8192 /dev/sda'],
    [ext4, '-i 8192 100'],
    [xfs, '-f'],
    [xfs, '-d name=/dev/sda'],
    [xfs, '-d file,size=1g'],
    [xfs, '-d agcount=4,name=sda'],
    [xfs, '-l logdev=sda'],
    [xfs, '-m uuid=0'],
    [xfs, '-p proto'],
    [btrfs, '-f'],
    [btrfs, '--force'],
    [btrfs, '--rootdir=/etc'],
    [btrfs, '-r etc'],
    [btrfs, '-O list-all'],
    [btrfs, '-R list-all'],
    [btrfs, '-M dev/sda'],
    [btrfs, '-L $(id)'],
  ];
  for (const [filesystem, text] of cases) {
    const why = { code: 'InvalidArgument', message: /^f contains ".*", which is not allowed for / };
    assert.throws(() => parseMkfsOptions(filesystem, text, 'f'), why, `${filesystem.name} ${text}`);
  }
});

function block(write: (view: DataView) => void): DataView {
  const view = new DataView(new ArrayBuffer(1024));
  write(view);
  return view;
}

/** As mkfs writes them for a filesystem of 64 TiB, which needs more than 32 bits. */
const written = {
  ext4: (view: DataView) => {
    view.setUint16(0x38, 0xef53, true);
    view.setUint32(0x18, 2, true); // 4 KiB
    view.setUint32(0x60, 0x80, true); // 64 bits
    view.setUint32(0x04, 0, true);
    view.setUint32(0x150, 4, true);
  },
  xfs: (view: DataView) => {
    view.setUint32(0, 0x58465342);
    view.setUint32(4, 4096);
    view.setBigUint64(8, (64n * tebi) / 4096n);
  },
  btrfs: (view: DataView) => {
    view.setBigUint64(0x40, 0x4d5f53665248425fn, true);
    view.setBigUint64(0xd1, 64n * tebi, true);
  },
};
const superblocks: readonly [Filesystem, DataView][] = [
  [ext4, block(written.ext4)],
  [xfs, block(written.xfs)],
  [btrfs, block(written.btrfs)],
];

test('kind and size are read from the superblock', () => {
  for (const [{ superblock }, view] of superblocks) {
    assert.deepEqual(superblock.parse(view), { sizeBytes: 64n * tebi, isUnfinished: false });
  }
  assert.equal(superblocks.length, filesystems.length);
});

test('an unfinished mkfs.xfs is detected', () => {
  const unfinished = block((view) => {
    written.xfs(view);
    view.setUint8(126, 1);
  });
  assert.equal(xfs.superblock.parse(unfinished)?.isUnfinished, true);
});

test('without the 64-bit feature of ext4 the upper half of the size is ignored', () => {
  const with32Bits = block((view) => {
    written.ext4(view);
    view.setUint32(0x60, 0, true);
    view.setUint32(0x04, 10, true);
  });
  assert.equal(ext4.superblock.parse(with32Bits)?.sizeBytes, 40_960n);
});

test('other filesystems, zeros and random bytes are not superblocks', () => {
  for (const { name, superblock } of filesystems) {
    for (const [other, view] of superblocks) {
      if (other.name !== name) assert.equal(superblock.parse(view), undefined);
    }
    assert.equal(superblock.parse(block(() => undefined)), undefined);
  }
  const bytes = fc.uint8Array({ minLength: 1024, maxLength: 1024 });
  fc.assert(
    fc.property(bytes, fc.constantFrom(xfs, btrfs), (random, { superblock }) => {
      assert.equal(superblock.parse(new DataView(random.buffer, random.byteOffset, 1024)), undefined);
    }),
  );
});
