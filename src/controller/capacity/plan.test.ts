import assert from 'node:assert/strict';
import { test } from 'node:test';
import { capacityName, nextCapacityStep, type PublishedCapacity, type WantedCapacity } from './plan.ts';

const wanted: WantedCapacity = { nodeName: 'a', storageClass: 'fast', freeBytes: 1024n, ownerUid: 'driver' };
const own: PublishedCapacity = {
  name: capacityName(wanted),
  uid: '1',
  nodeName: 'a',
  storageClass: 'fast',
  capacity: '1Ki',
  ownerUid: 'driver',
};
const ofProvisioner: PublishedCapacity = { ...own, name: 'csisc-7xk2p', uid: '2', ownerUid: undefined };

const rows: readonly [string, WantedCapacity | undefined, readonly PublishedCapacity[], string][] = [
  ['nothing published yet', wanted, [], 'create'],
  ['published and current', wanted, [own], 'nothing'],
  ['free capacity has changed', { ...wanted, freeBytes: 0n }, [own], 'update'],
  ['the CSIDriver was created again', { ...wanted, ownerUid: 'another' }, [own], 'update'],
  ['an earlier installation has published it', wanted, [ofProvisioner], 'create'],
  ['ours exists too: the other is deleted', wanted, [ofProvisioner, own], 'delete csisc-7xk2p'],
  ['ours is out of date: it is updated first', { ...wanted, freeBytes: 0n }, [ofProvisioner, own], 'update'],
  ['node or class is gone', undefined, [own], `delete ${own.name}`],
  ['nothing wanted, nothing published', undefined, [], 'nothing'],
];
for (const [situation, room, published, expected] of rows) {
  test(`${situation}: ${expected}`, () => {
    const step = nextCapacityStep(room, published);
    assert.equal(step.kind === 'delete' ? `delete ${step.object.name}` : step.kind, expected);
  });
}

test('object names are valid and unique per node and class', () => {
  const long = capacityName({ nodeName: 'n'.repeat(253), storageClass: 'c'.repeat(253) });
  assert.match(long, /^[a-z0-9-]{1,63}$/);
  const one = capacityName({ nodeName: 'a.b', storageClass: 'c' });
  assert.notEqual(one, capacityName({ nodeName: 'a', storageClass: 'b.c' }));
});
