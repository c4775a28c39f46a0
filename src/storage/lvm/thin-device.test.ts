import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deviceMapperName, stretchedTable, ThinDeviceOdd } from './thin-device.ts';

test('a table grows and never shrinks, and keeps what it points to', () => {
  assert.equal(stretchedTable('0 131072 thin 254:2 201\n', 262144n), '0 262144 thin 254:2 201');
  assert.equal(stretchedTable('0 131072 thin 254:2 201 253:7', 262144n), '0 262144 thin 254:2 201 253:7');
  assert.equal(stretchedTable('0 131072 thin 254:2 201', 131072n), undefined);
  assert.equal(stretchedTable('0 131072 thin 254:2 201', 4096n), undefined);
});

test('a table of another kind is left alone', () => {
  for (const table of ['', '0 8 linear 254:1 0', '0 8 thin 254:1 0\n8 8 thin 254:1 1', '8 8 thin 254:1 0']) {
    assert.throws(() => stretchedTable(table, 16n), ThinDeviceOdd, table);
  }
});

test('dashes of the names are doubled', () => {
  assert.equal(deviceMapperName('my-vg', 'pvc-1-2'), 'my--vg-pvc--1--2');
});
