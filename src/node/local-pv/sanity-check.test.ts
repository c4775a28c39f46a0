import assert from 'node:assert/strict';
import { test } from 'node:test';
import { staleMounts } from './sanity-check.ts';

test('mounts of volumes that no PersistentVolume names are found', () => {
  const mountInfo = ['/mnt/pv/gone', '/mnt/pv/db', '/run/moorage/local-pv/old', '/mnt/pv', '/mnt/pv/db/inside', '/home']
    .map((target) => `36 35 253:0 / ${target} rw - ext4 /dev/vg/x rw\n`)
    .join('');
  assert.deepEqual(staleMounts(mountInfo, ['/mnt/pv', '/run/moorage/local-pv'], new Set(['db'])), [
    '/mnt/pv/gone',
    '/run/moorage/local-pv/old',
  ]);
});
