import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { DeviceClass } from '../storage/device-classes.ts';
import { annotationChanges, capacityAnnotations } from './capacity-annotations.ts';

const erase = { kind: 'none' } as const;

function thick(name: string, volumeGroup: string, isDefault = false): DeviceClass {
  const unused = { spareBytes: 0n, stripes: 0, stripeSize: undefined, lvcreateOptions: [], erase } as const;
  return { type: 'thick', name, volumeGroup, isDefault, snapshots: 'none', ...unused };
}
const free: Readonly<Record<string, bigint>> = { ssd: 10n, hdd: 20n, dir: 30n };
const freeBytes = (name: string) => free[name] ?? 0n;

test('a class is found by its name, its volume group, and as the default', () => {
  const dir: DeviceClass = { type: 'file', name: 'dir', path: '/x', isDefault: false, spareBytes: 0n, erase };
  assert.deepEqual(Object.fromEntries(capacityAnnotations([thick('ssd', 'vg0', true), dir], freeBytes)), {
    'capacity.topolvm.io/vg0': '10',
    'capacity.topolvm.io/00default': '10',
    'capacity.topolvm.io/ssd': '10',
    'capacity.topolvm.io/dir': '30',
  });
});

test('where a class and a volume group share a name, it means the class', () => {
  const annotations = capacityAnnotations([thick('ssd', 'hdd'), thick('hdd', 'ssd')], freeBytes);
  assert.equal(annotations.get('capacity.topolvm.io/ssd'), '10');
  assert.equal(annotations.get('capacity.topolvm.io/hdd'), '20');
});

test('only what differs is changed, and what is stale goes', () => {
  const wanted = new Map([
    ['capacity.topolvm.io/a', '1'],
    ['capacity.topolvm.io/b', '2'],
  ]);
  const current = {
    'capacity.topolvm.io/a': '1',
    'capacity.topolvm.io/b': '9',
    'capacity.topolvm.io/old': '3',
    other: 'x',
  };
  assert.deepEqual(annotationChanges(current, wanted), {
    'capacity.topolvm.io/b': '2',
    'capacity.topolvm.io/old': null,
  });
  assert.deepEqual(annotationChanges(Object.fromEntries(wanted), wanted), {});
});
