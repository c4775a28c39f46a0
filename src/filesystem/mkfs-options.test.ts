import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Filesystem } from './filesystem.ts';
import { parseMkfsOptions } from './mkfs-options.ts';

test('options that lay out a filesystem are passed on unchanged', () => {
  const cases: [Filesystem, string][] = [
    ['ext4', '-i 8192 -I 512 -O ^has_journal,metadata_csum -E stride=16,stripe_width=64 -m 1 -L data'],
    ['xfs', '-d su=64k,sw=4 -l size=64m -i maxpct=50 -m reflink=0,crc=1 -n size=8k'],
    ['btrfs', '--csum xxhash -n 16k -m dup --mixed -O no-holes,free-space-tree'],
  ];
  for (const [filesystem, text] of cases) {
    assert.deepEqual(parseMkfsOptions(filesystem, `  ${text}\n`, 'f'), text.split(' '));
  }
  assert.deepEqual(parseMkfsOptions('ext4', '', 'f'), []);
});

test('options that force mkfs, name another device or a file, create no filesystem, or lack a value are refused', () => {
  const cases: [Filesystem, string][] = [
    ['ext4', '-F'],
    ['ext4', '-d /etc'],
    ['ext4', '-S'],
    ['ext4', '-U random'],
    ['ext4', '-J device=/dev/sda'],
    ['ext4', '-J size=4,device=LABEL=x'],
    ['ext4', '-E offset=1048576'],
    ['ext4', '-O journal_dev'],
    ['ext4', '-b'],
    ['ext4', '-b -F'],
    ['ext4', '/dev/sda'],
    ['ext4', '-i 8192 /dev/sda'],
    ['ext4', '-i 8192 100'],
    ['xfs', '-f'],
    ['xfs', '-d name=/dev/sda'],
    ['xfs', '-d file,size=1g'],
    ['xfs', '-d agcount=4,name=sda'],
    ['xfs', '-l logdev=sda'],
    ['xfs', '-m uuid=0'],
    ['xfs', '-p proto'],
    ['btrfs', '-f'],
    ['btrfs', '--force'],
    ['btrfs', '--rootdir=/etc'],
    ['btrfs', '-r etc'],
    ['btrfs', '-O list-all'],
    ['btrfs', '-R list-all'],
    ['btrfs', '-M dev/sda'],
    ['btrfs', '-L $(id)'],
  ];
  for (const [filesystem, text] of cases) {
    const why = { code: 'InvalidArgument', message: /^f contains ".*", which is not allowed for / };
    assert.throws(() => parseMkfsOptions(filesystem, text, 'f'), why, `${filesystem} ${text}`);
  }
});
