import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deviceMapperName, grownTable, parseThinPoolStatus, ThinDeviceUnexpected } from './thin-device.ts';

test('a table grows, never shrinks, and keeps its target', () => {
  assert.equal(grownTable('0 131072 thin 254:2 201\n', 262144n), '0 262144 thin 254:2 201');
  assert.equal(grownTable('0 131072 thin 254:2 201 253:7', 262144n), '0 262144 thin 254:2 201 253:7');
  assert.equal(grownTable('0 131072 thin 254:2 201', 131072n), undefined);
  assert.equal(grownTable('0 131072 thin 254:2 201', 4096n), undefined);
});

test('an unexpected table is rejected', () => {
  for (const table of ['', '0 8 linear 254:1 0', '0 8 thin 254:1 0\n8 8 thin 254:1 1', '8 8 thin 254:1 0']) {
    assert.throws(() => grownTable(table, 16n), ThinDeviceUnexpected, table);
  }
});

test('the usage of a thin pool is read, and an unexpected status is rejected', () => {
  const status = '0 524288 thin-pool 1 13/1024 1200/4096 - rw discard_passdown queue_if_no_space - 1024 \n';
  assert.deepEqual(parseThinPoolStatus(status), { dataPercent: 29.3, metadataPercent: 1.27 });
  for (const odd of ['', '0 524288 thin-pool Fail', '0 524288 thin-pool 1 0/0 0/0 - rw', '0 8 linear ', 'x']) {
    assert.throws(() => parseThinPoolStatus(odd), ThinDeviceUnexpected, odd);
  }
});

test('dashes in names are doubled', () => {
  assert.equal(deviceMapperName('my-vg', 'pvc-1-2'), 'my--vg-pvc--1--2');
});
