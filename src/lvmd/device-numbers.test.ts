import assert from 'node:assert/strict';
import { mkdtempSync, renameSync, rmSync, watch, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { splitDeviceNumber } from '../base/device-number.ts';
import { silentLog } from '../base/testing/silent-log.ts';
import { DeviceNumbers } from './device-numbers.ts';

interface Watch {
  readonly change: (name: string | null) => void;
  readonly lose: (error: Error) => void;
}

/** A fake directory /dev/vg with devices in it. */
function start() {
  const minors = new Map<string, bigint>();
  const looks: string[] = [];
  const watches = new Set<Watch>();
  const directory = { inode: 1n, canBeWatched: true };
  const numbers = new DeviceNumbers(silentLog, {
    stat(path) {
      looks.push(path);
      if (path === '/dev/vg') return { ino: directory.inode, rdev: 0n, isBlockDevice: () => false };
      const minor = minors.get(path);
      return minor === undefined ? undefined : { ino: 7n, rdev: 0xfd00n + minor, isBlockDevice: () => true };
    },
    watch(_, change, lose) {
      if (!directory.canBeWatched) throw new Error('no more watches');
      const watch = { change, lose };
      watches.add(watch);
      return () => void watches.delete(watch);
    },
  });
  const pathOf = (name: string) => `/dev/vg/${name}`;
  return {
    directory,
    watches,
    minorsOf: async (...names: readonly string[]) => (await numbers.of(names.map(pathOf))).map(({ minor }) => minor),
    /** Without a notification. */
    put: (name: string, minor: bigint) => void minors.set(pathOf(name), minor),
    notify: (name: string | null) => {
      for (const { change } of watches) change(name);
    },
    /** The paths looked up since the last call. */
    looked: () => looks.splice(0),
  };
}

test('device numbers are split as the C library packs them', () => {
  assert.deepEqual(splitDeviceNumber(0xfd03n), { major: 253, minor: 3 });
  assert.deepEqual(splitDeviceNumber(0x100fd00n), { major: 253, minor: 4096 });
});

test('a volume without a device and a path that is not a block device have no numbers', async () => {
  const zeros = { major: 0, minor: 0 };
  const numbers = new DeviceNumbers(silentLog);
  assert.deepEqual(await numbers.of(['/dev/no-such-group/data', '/dev/null']), [zeros, zeros]);
});

test('only changed devices are looked up again', async () => {
  const { put, notify, minorsOf, looked } = start();
  put('a', 1n);
  put('b', 2n);
  put('c', 3n);
  assert.deepEqual(await minorsOf('a', 'b', 'c'), [1, 2, 3]);
  looked();
  assert.deepEqual(await minorsOf('a', 'b', 'c'), [1, 2, 3]);
  assert.deepEqual(looked(), ['/dev/vg']);

  put('b', 9n);
  notify('b');
  assert.deepEqual(await minorsOf('a', 'b', 'c'), [1, 9, 3]);
  assert.deepEqual(looked(), ['/dev/vg', '/dev/vg/b']);

  put('a', 8n);
  notify(null);
  assert.deepEqual(await minorsOf('a', 'b', 'c'), [8, 9, 3]);
});

test('a re-created directory, such as that of a temporarily empty group, is read and watched again', async () => {
  const { put, minorsOf, directory, watches } = start();
  put('data', 3n);
  assert.deepEqual(await minorsOf('data'), [3]);
  const [before] = watches;
  put('data', 4n);
  directory.inode = 2n;
  assert.deepEqual(await minorsOf('data'), [4]);
  assert.equal(watches.size, 1);
  assert.ok(before && !watches.has(before));
});

test('a directory that cannot be watched is not cached', async () => {
  const { put, minorsOf, directory, watches } = start();
  const minorChanges = async () => {
    const seen: number[] = [];
    for (const minor of [3n, 4n, 5n]) {
      put('data', minor);
      seen.push(...(await minorsOf('data')));
    }
    return seen;
  };
  directory.canBeWatched = false;
  assert.deepEqual(await minorChanges(), [3, 4, 5]);
  directory.canBeWatched = true;
  assert.deepEqual(await minorChanges(), [3, 3, 3]);
  directory.canBeWatched = false;
  for (const { lose } of watches) lose(new Error('it was lost'));
  assert.deepEqual(await minorChanges(), [3, 4, 5]);
  assert.equal(watches.size, 0);
});

test('a lookup after a device was re-created never returns the old number', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'moorage-devices-'));
  t.after(() => rmSync(directory, { recursive: true }));
  const device = join(directory, 'data');
  writeFileSync(device, '');
  let minor = 3n;
  const numbers = new DeviceNumbers(silentLog, {
    stat: () => ({ ino: 1n, rdev: 0xfd00n + minor, isBlockDevice: () => true }),
    watch: (path, onChange) => {
      const watcher = watch(path, (_, name) => onChange(name));
      t.after(() => watcher.close());
      return () => watcher.close();
    },
  });
  assert.deepEqual(await numbers.of([device]), [{ major: 253, minor: 3 }]);
  writeFileSync(join(directory, 'new'), '');
  renameSync(join(directory, 'new'), device);
  minor = 4n;
  assert.deepEqual(await numbers.of([device]), [{ major: 253, minor: 4 }]);
});
