import assert from 'node:assert/strict';
import { test } from 'node:test';
import { mostSimilar } from './similar.ts';

const words = ['device-class', 'on-node-removal', 'on-drain', 'encryption', 'wait', 'keep'];

for (const [written, meant] of [
  ['device-clas', 'device-class'],
  ['DeviceClass', 'device-class'],
  ['device_class', 'device-class'],
  ['on-node-remove', 'on-node-removal'],
  ['encrypted', 'encryption'],
  ['encription', 'encryption'],
  ['kep', 'keep'],
  ['waits', 'wait'],
  ['drop', undefined],
  ['zone', undefined],
  ['', undefined],
] as const) {
  test(`${written || 'nothing'} ${meant ? `probably means ${meant}` : 'resembles no word'}`, () => {
    assert.equal(mostSimilar(written, words), meant);
  });
}
