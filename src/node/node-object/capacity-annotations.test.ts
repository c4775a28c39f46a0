import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { DeviceClass } from '../../engine/config/device-classes.ts';
import { capacityAnnotations } from './capacity-annotations.ts';

const erase = { kind: 'none' } as const;

function thick(name: string, volumeGroup: string, isDefault = false): DeviceClass {
  const unused = { spareBytes: 0n, stripes: 0, stripeSize: undefined, lvcreateOptions: [], erase } as const;
  return { type: 'thick', name, volumeGroup, isDefault, snapshots: 'none', ...unused };
}
function thin(name: string, volumeGroup: string): DeviceClass {
  const thinPool = { name, overprovisionRatio: 1, maxDataPercent: 90, maxMetadataPercent: 90 };
  const unused = { spareBytes: 0n, stripes: 0, stripeSize: undefined, lvcreateOptions: [], erase } as const;
  return { type: 'thin', name, volumeGroup, isDefault: false, thinPool, ...unused };
}

const free: Readonly<Record<string, bigint>> = { ssd: 10n, hdd: 20n, dir: 30n, big: 90n };
const freeBytes = (name: string) => free[name] ?? 0n;

test('a class is published by its name, by its volume group, and as the default', () => {
  const dir: DeviceClass = { type: 'file', name: 'dir', path: '/x', isDefault: false, spareBytes: 0n, erase };
  assert.deepEqual(Object.fromEntries(capacityAnnotations([thick('ssd', 'vg0', true), dir], freeBytes)), {
    'capacity.topolvm.io/vg0': '10',
    'capacity.topolvm.io/00default': '10',
    'capacity.topolvm.io/ssd': '10',
    'capacity.topolvm.io/dir': '30',
  });
});

test('a volume group whose name is invalid in an annotation is published by its class only', () => {
  for (const group of ['vg+data', '_vg', 'vg_', '.vg', 'v'.repeat(64)]) {
    const annotations = capacityAnnotations([thick('ssd', group, true)], freeBytes);
    assert.deepEqual([...annotations.keys()], ['capacity.topolvm.io/ssd', 'capacity.topolvm.io/00default'], group);
  }
});

test('a name shared by a class and a volume group means the class', () => {
  const annotations = capacityAnnotations([thick('ssd', 'hdd'), thick('hdd', 'ssd')], freeBytes);
  assert.equal(annotations.get('capacity.topolvm.io/ssd'), '10');
  assert.equal(annotations.get('capacity.topolvm.io/hdd'), '20');
});

test('a volume group has the free space of its thick class, or the most of its thin classes', () => {
  const mixed = capacityAnnotations([thin('big', 'vg0'), thick('ssd', 'vg0')], freeBytes);
  assert.equal(mixed.get('capacity.topolvm.io/vg0'), '10');
  const onlyThin = capacityAnnotations([thin('hdd', 'vg0'), thin('big', 'vg0'), thin('ssd', 'vg0')], freeBytes);
  assert.equal(onlyThin.get('capacity.topolvm.io/vg0'), '90');
});
