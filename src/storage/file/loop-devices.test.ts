import assert from 'node:assert/strict';
import { test } from 'node:test';
import { identityOf } from './loop-devices.ts';

test('a file is known by the numbers that losetup shows', () => {
  assert.equal(identityOf({ dev: 0xfe00n, ino: 12n }), '254:0 12');
  assert.equal(identityOf({ dev: 0x2dn, ino: 257n }), '0:45 257');
  assert.equal(identityOf({ dev: 0x10_01_2cn, ino: 1n }), '1:300 1');
});
