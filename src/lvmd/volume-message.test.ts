import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deviceNumbers, splitDeviceNumber } from './volume-message.ts';

test('device numbers are split as the C library packs them', () => {
  assert.deepEqual(splitDeviceNumber(0xfd03n), { major: 253, minor: 3 });
  assert.deepEqual(splitDeviceNumber(0x100fd00n), { major: 253, minor: 4096 });
});

test('a volume without a device, or a path that is none, has no numbers', () => {
  assert.deepEqual(deviceNumbers('/dev/no-such-group/data'), { major: 0, minor: 0 });
  assert.deepEqual(deviceNumbers('/dev/null'), { major: 0, minor: 0 });
});
