import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLog } from '../base/testing/silent-log.ts';
import { ObjectCache } from '../kube/object-cache.ts';
import type { ConfigMap, Stored } from '../kube/resource.ts';
import { noDefaults } from './defaults.ts';
import { LiveDefaults } from './live-defaults.ts';

/** The defaults, and functions that change the ConfigMap. */
function liveDefaults() {
  const cache = new ObjectCache<Stored<ConfigMap>>(silentLog);
  const defaults = new LiveDefaults('moorage-local-pv', cache);
  let version = 0;
  const cached = (yaml: string) => {
    const metadata = { name: 'moorage-local-pv', uid: 'u', resourceVersion: `${++version}`, creationTimestamp: '' };
    return { ...metadata, object: { metadata, data: { 'defaults.yaml': yaml } } };
  };
  return { defaults, write: (yaml: string) => cache.put('', cached(yaml)), remove: () => cache.remove('', 'u') };
}

test('without a ConfigMap, or with an invalid one from the start, there are no defaults', () => {
  const { defaults, write } = liveDefaults();
  assert.throws(() => defaults.get(), /there is no ConfigMap moorage-local-pv .*; create it/);
  write('defaults: {fsType: ntfs}');
  assert.throws(() => defaults.get(), /ConfigMap moorage-local-pv has invalid defaults .* "ntfs"; use one of/);
});

test('an invalid or deleted ConfigMap leaves the last valid defaults in effect', () => {
  const { defaults, write, remove } = liveDefaults();
  write('defaults: {fsType: xfs}');
  write('defaults: {fsType: ntfs}');
  remove();
  assert.deepEqual(defaults.get().general, { fsType: 'xfs' });
  write('');
  assert.deepEqual(defaults.get(), noDefaults);
});
