import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { identityOf, parseList, UnreadableLoopDevices } from './loop-devices.ts';

test('a file is identified by the numbers that losetup shows', () => {
  assert.equal(identityOf({ dev: 0xfe00n, ino: 12n }), '254:0 12');
  assert.equal(identityOf({ dev: 0x2dn, ino: 257n }), '0:45 257');
  assert.equal(identityOf({ dev: 0x10_01_2cn, ino: 1n }), '1:300 1');
});

test('the output of losetup is parsed as a whole or refused', () => {
  const loop = { name: '/dev/loop0', 'back-ino': 12, 'back-maj:min': '254:0' };
  const good = JSON.stringify({ loopdevices: [loop, { ...loop, name: '/dev/loop1', 'back-maj:min': ' 0:45' }] });
  assert.equal(parseList(good).length, 2);
  const detached = { name: '/dev/loop2', 'back-ino': null, 'back-maj:min': null };
  assert.deepEqual(parseList(JSON.stringify({ loopdevices: [loop, detached] })), [loop], 'it was detached meanwhile');
  for (const text of ['', '[]', '{"loopdevices": {}}', '{"loopdevices": [{"name": 5}]}', 'losetup: no permission']) {
    assert.throws(() => parseList(text), UnreadableLoopDevices, text);
  }
  fc.assert(
    fc.property(fc.nat(good.length - 1), (length) =>
      assert.throws(() => parseList(good.slice(0, length)), UnreadableLoopDevices),
    ),
  );
});
