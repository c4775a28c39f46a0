import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseOptions } from './options.ts';

test("without any option, those of k8s-local-pv's original hold", () => {
  const options = parseOptions([]);
  assert.equal(options.filesystem.name, 'ext4');
  assert.deepEqual(options.mountOptions, ['noexec']);
  assert.deepEqual(options.place, { volumeGroup: 'storage_bulk' });
  assert.deepEqual([options.cryptSecret, options.onRemoval, options.onRelease], [undefined, undefined, 'zero']);
  assert.equal(options.autoRelease, false);
});

test('the first source that sets an option wins', () => {
  const options = parseOptions([
    { fsType: 'xfs', mountOpts: '' },
    { fsType: 'btrfs', mountOpts: 'noatime', vg: 'fast' },
  ]);
  assert.equal(options.filesystem.name, 'xfs');
  assert.deepEqual(options.mountOptions, []);
  assert.deepEqual(options.place, { volumeGroup: 'fast' });
});

test('the first source that names a volume group or a device class decides where the volume is', () => {
  assert.deepEqual(parseOptions([{ vg: 'vg0' }, { deviceClass: 'thin' }]).place, { volumeGroup: 'vg0' });
  assert.deepEqual(parseOptions([{}, { deviceClass: 'thin' }]).place, { deviceClass: 'thin' });
  assert.deepEqual(parseOptions([{ deviceClass: 'thin', vg: 'vg0' }]).place, { deviceClass: 'thin' });
});

test('an invalid option is refused with its name and a remedy', () => {
  const rows = [
    [{ fsType: 'ntfs' }, /fsType is "ntfs"; use one of ext4, xfs, btrfs/],
    [{ fsOpts: '-F' }, /fsOpts contains "-F", which is not allowed for ext4/],
    [{ mountOpts: 'noexec,bind' }, /mountOpts contains "bind", which is not an allowed mount option/],
    [{ mountOpts: 'noexec noatime' }, /mountOpts contains "noexec noatime"/],
    [{ mountOpts: 'noexec\nType=tmpfs' }, /mountOpts contains/],
    [{ mountOpts: 'X-mount.mkdir' }, /mountOpts contains "X-mount.mkdir"/],
    [{ vg: 'a/b' }, /vg is "a\/b"; write the name of a volume group/],
    [{ deviceClass: '-x' }, /moorage.dev\/device-class is "-x"/],
    [{ cryptSecret: 'No_Secret' }, /cryptSecret is "No_Secret"; write the name of a Secret/],
    [{ autoRelease: 'yes' }, /autoRelease is "yes"; use one of true, false/],
    [{ onRemoval: 'burn' }, /on-removal is "burn"; use one of none, discard, zero, shred/],
    [{ onRelease: 'none' }, /on-release is "none"; use one of zero, shred, discard, keep/],
  ] as const;
  for (const [words, message] of rows) assert.throws(() => parseOptions([words]), { code: 'InvalidArgument', message });
});
