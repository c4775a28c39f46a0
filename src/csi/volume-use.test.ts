import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ext4 } from '../filesystem/ext4.ts';
import { xfs } from '../filesystem/xfs.ts';
import { contextFor, ephemeralVolume, filesystemSettings, type VolumeUse, withoutClassSettings } from './volume-use.ts';

const gibi = 1024n ** 3n;
const onExt4: VolumeUse = { kind: 'filesystem', filesystem: ext4, mountFlags: [] };
const inline = { 'csi.storage.k8s.io/ephemeral': 'true', 'csi.storage.k8s.io/pod.uid': 'p' };

test('the root directory of a filesystem is open to all unless its class says otherwise', () => {
  const plain = { mkfsOptions: [], rootMode: 0o2777, rootOwner: { uid: 0, gid: 0 } };
  assert.deepEqual(filesystemSettings({}, ext4), plain);
  const context = { 'moorage.dev/root-mode': '750', 'moorage.dev/root-owner': '1000:0' };
  assert.deepEqual(filesystemSettings(context, xfs), {
    ...plain,
    rootMode: 0o750,
    rootOwner: { uid: 1000, gid: 0 },
  });
});

test('the volume context contains only the settings that matter after the creation', () => {
  const settings = {
    'moorage.dev/mkfs-options': '-i 8192',
    'moorage.dev/root-mode': '0700',
    'moorage.dev/on-node-removal': 'keep',
    'moorage.dev/on-drain': 'move',
    'moorage.dev/on-scale-down': 'delete',
  };
  assert.deepEqual(contextFor({ ...settings, 'topolvm.io/device-class': 'fast' }, onExt4), settings);
  assert.deepEqual(contextFor({}, onExt4), {});
});

test('invalid settings are refused when the volume is created', () => {
  for (const [name, value, message] of [
    ['moorage.dev/root-mode', '888', /^moorage.dev\/root-mode is "888"; write the mode/],
    ['moorage.dev/root-mode', 'rwx', /octal digits/],
    ['moorage.dev/root-mode', '', /octal digits/],
    ['moorage.dev/root-owner', 'root', /^moorage.dev\/root-owner is "root"; write the numbers/],
    ['moorage.dev/root-owner', '4294967295:0', /numbers of user and group/],
    ['moorage.dev/root-owner', '1:2:3', /numbers of user and group/],
    ['moorage.dev/on-node-removal', 'Keep', /^moorage.dev\/on-node-removal is "Keep"; use one of drop, keep, wait$/],
    ['moorage.dev/on-node-removal', '', /use one of drop, keep, wait/],
    ['moorage.dev/on-drain', 'keep', /^moorage.dev\/on-drain is "keep"; use one of wait, move, delegate, drop$/],
    ['moorage.dev/on-scale-down', 'drop', /^moorage.dev\/on-scale-down is "drop"; use one of keep, delete$/],
    [
      'moorage.dev/mkfs-options',
      '-F',
      /^moorage.dev\/mkfs-options contains "-F", which is not allowed for ext4; use -b/,
    ],
  ] as const) {
    assert.throws(() => contextFor({ [name]: value }, onExt4), { code: 'InvalidArgument', message });
  }
  // One class serves both; a raw device is never formatted.
  contextFor({ 'moorage.dev/mkfs-options': '-F' }, { kind: 'block' });
});

test('a volume of a claim is not ephemeral', () => {
  assert.equal(ephemeralVolume({ 'csi.storage.k8s.io/ephemeral': 'false', 'topolvm.io/size': 'x' }), undefined);
  assert.equal(ephemeralVolume({}), undefined);
});

test('an inline volume has the requested GiB, by the new or the old attribute name, or else one GiB', () => {
  assert.deepEqual(ephemeralVolume(inline), { sizeBytes: gibi, deviceClass: '', podUid: 'p', forClassesOnly: [] });
  assert.equal(ephemeralVolume({ ...inline, 'topolvm.cybozu.com/size': '5' })?.sizeBytes, 5n * gibi);
  const both = { ...inline, 'topolvm.cybozu.com/size': '5', 'topolvm.io/size': '7' };
  assert.equal(ephemeralVolume(both)?.sizeBytes, 7n * gibi);
  for (const size of ['', '0', '-1', '1.5', '1Gi', '99999999', ' 1']) {
    assert.throws(() => ephemeralVolume({ ...inline, 'topolvm.io/size': size }), {
      code: 'InvalidArgument',
      message: /^the pod's volume attribute topolvm.io\/size is .*; write a whole number of GiB/,
    });
  }
});

test('a mistyped attribute of an inline volume is refused, and foreign attributes are ignored', () => {
  assert.throws(
    () => ephemeralVolume({ ...inline, 'topolvm.io/sise': '2' }),
    /^InvalidInput: unknown name "topolvm.io\/sise"/,
  );
  assert.ok(ephemeralVolume({ ...inline, 'example.com/colour': 'red' }));
});

test('attributes that only a class may set are collected, so that the error for an inline volume can name them', () => {
  const settings = { 'moorage.dev/root-owner': 'x', 'moorage.dev/mkfs-options': '-F', 'moorage.dev/root-mode': '750' };
  const { forClassesOnly } = ephemeralVolume({ ...inline, ...settings }) ?? {};
  assert.deepEqual(forClassesOnly, ['moorage.dev/mkfs-options', 'moorage.dev/root-owner']);
  assert.deepEqual(withoutClassSettings(settings), { 'moorage.dev/root-mode': '750' });
});
