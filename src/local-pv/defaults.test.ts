import assert from 'node:assert/strict';
import { test } from 'node:test';
import { defaultsFor, parseDefaults } from './defaults.ts';

test('defaults of a StorageClass come before the general ones', () => {
  const yaml = 'defaults: {vg: bulk, autoRelease: true}\nstorageClasses: {search: {vg: fast}}';
  const defaults = parseDefaults({ 'defaults.yaml': yaml });
  assert.deepEqual(defaultsFor(defaults, 'search'), [{ vg: 'fast' }, { vg: 'bulk', autoRelease: 'true' }]);
  assert.deepEqual(defaultsFor(defaults, 'other'), [{}, { vg: 'bulk', autoRelease: 'true' }]);
});

test('an empty file sets nothing', () => {
  assert.deepEqual(defaultsFor(parseDefaults({ 'defaults.yaml': '' }), 'search'), [{}, {}]);
});

test('invalid defaults are refused as a whole, with the place of the mistake', () => {
  const rows = [
    [{}, /it has no key defaults.yaml/],
    [{ 'defaults.yaml': 'defaults: {' }, /not YAML/],
    [{ 'defaults.yaml': '- 1' }, /0: is unknown/],
    [{ 'defaults.yaml': 'default: {}' }, /default: is unknown; use defaults and storageClasses/],
    [{ 'defaults.yaml': 'defaults: {fstype: xfs}' }, /must be one of fsType, fsOpts/],
    [{ 'defaults.yaml': 'defaults: {fsType: ntfs}' }, /defaults.fsType is "ntfs"; use one of/],
    [
      { 'defaults.yaml': 'storageClasses: {a: {fsOpts: -b 4096}}\ndefaults: {fsType: 7}' },
      /defaults.fsType: must be text/,
    ],
    [{ 'defaults.yaml': 'storageClasses: {a: {onRelease: never}}' }, /storageClasses.a.onRelease is "never"/],
  ] as const;
  for (const [data, message] of rows) assert.throws(() => parseDefaults(data), { code: 'InvalidArgument', message });
});
