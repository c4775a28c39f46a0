import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ManualClock } from '../base/manual-clock.ts';
import { splitDeviceNumber } from '../storage/device-number.ts';
import { DeviceNumbers } from './device-numbers.ts';

/** A directory /dev/vg with devices in it. */
function start() {
  const minors = new Map<string, bigint>();
  const clock = new ManualClock(1_000_000);
  let changedMs = 0;
  const looks: string[] = [];
  const numbers = new DeviceNumbers(clock, (path) => {
    looks.push(path);
    if (path === '/dev/vg') return { mtimeNs: BigInt(changedMs) * 1_000_000n, rdev: 0n, isBlockDevice: () => false };
    const minor = minors.get(path);
    return minor === undefined ? undefined : { mtimeNs: 0n, rdev: 0xfd00n + minor, isBlockDevice: () => true };
  });
  return {
    clock,
    looks,
    minorOf: (name: string) => numbers.of([`/dev/vg/${name}`])[0]?.minor,
    all: (names: readonly string[]) => numbers.of(names.map((name) => `/dev/vg/${name}`)),
    put: (name: string, minor: bigint) => {
      minors.set(`/dev/vg/${name}`, minor);
      changedMs = clock.now();
    },
  };
}

test('device numbers are split as the C library packs them', () => {
  assert.deepEqual(splitDeviceNumber(0xfd03n), { major: 253, minor: 3 });
  assert.deepEqual(splitDeviceNumber(0x100fd00n), { major: 253, minor: 4096 });
});

test('a volume without a device, or a path that is none, has no numbers', () => {
  const zeros = { major: 0, minor: 0 };
  const numbers = new DeviceNumbers(new ManualClock());
  assert.deepEqual(numbers.of(['/dev/no-such-group/data', '/dev/null']), [zeros, zeros]);
});

test('a second list looks at the directory only', () => {
  const { put, all, clock, looks } = start();
  const names = Array.from({ length: 200 }, (_, i) => `v${i}`);
  for (const [i, name] of names.entries()) put(name, BigInt(i));
  clock.advance(5000);
  const first = all(names);
  looks.length = 0;
  assert.deepEqual(all(names), first);
  assert.deepEqual(first[7], { major: 253, minor: 7 });
  assert.deepEqual(looks, ['/dev/vg']);
});

test('a device that comes back with another number is noticed', () => {
  const { put, minorOf, clock } = start();
  put('data', 3n);
  clock.advance(5000);
  assert.equal(minorOf('data'), 3);
  put('data', 9n);
  assert.equal(minorOf('data'), 9);
  clock.advance(5000);
  assert.equal(minorOf('data'), 9);
});

test('a device that changes again within one tick of the clock is noticed: what is fresh is not remembered', () => {
  const { put, minorOf, clock } = start();
  clock.advance(5000);
  put('data', 3n);
  assert.equal(minorOf('data'), 3);
  put('data', 4n); // at the same time
  assert.equal(minorOf('data'), 4);
});
