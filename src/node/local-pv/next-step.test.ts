import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Pool, Volume } from '../../engine/pool.ts';
import { parseOptions } from '../../local-pv/options.ts';
import type { StaticVolume } from '../../local-pv/static-volume.ts';
import { type Found, nextStep, type Orders } from './next-step.ts';

const fresh: StaticVolume = {
  ...parseOptions([{ vg: 'vg0' }]),
  name: 'db',
  uid: 'uid-1',
  path: '/mnt/pv/db',
  sizeBytes: 4096n,
  isProcessed: false,
  adopt: false,
};
const processed: StaticVolume = { ...fresh, isProcessed: true, adopt: true };
const kept: StaticVolume = { ...processed, onRelease: 'keep' };
const thin: StaticVolume = { ...processed, place: { deviceClass: 'thin' } };

const idle: Orders = { isDeleting: false, isBound: false, isRemoved: false, releasedBy: undefined };
const bound: Orders = { ...idle, isBound: true };
const released: Orders = { ...idle, releasedBy: 'claim-1' };
const deleted: Orders = { ...idle, isDeleting: true };

const pool = { name: 'of volume group vg0', details: () => ({ volumeGroup: 'vg0' }) } as unknown as Pool;
const volumeWith = (...tags: string[]): Volume => ({
  id: 'db',
  sizeBytes: 4096n,
  devicePath: '/dev/vg0/db',
  tags,
  readOnly: false,
  attr: '-wi-a-----',
});
const found = (kind: 'own' | 'foreign', ...tags: string[]): Found => ({ kind, pool, volume: volumeWith(...tags) });

const nothing: Found = { kind: 'nothing', pool };
const nowhere: Found = { kind: 'nowhere' };
const erasing: Found = { kind: 'erasing', pool };
const created = found('own', 'moorage.dev/created', 'moorage.dev/unused');
const used = found('own', 'moorage.dev/created', 'moorage.dev/filesystem=ext4');
const adopted = found('own', 'moorage.dev/adopted', 'moorage.dev/filesystem=ext4');
const readopted = found('own', 'moorage.dev/created', 'moorage.dev/adopted', 'moorage.dev/filesystem=ext4');
const plain = found('foreign');
const ofClaim = found('foreign', 'moorage.dev/volume=pvc-1');
const ofEarlier = found('foreign', 'moorage.dev/created', 'moorage.dev/local-pv=db', 'moorage.dev/local-pv-uid=uid-0');

test('the next step follows from the PersistentVolume and the disks, also after a crash', () => {
  const rows: readonly (readonly [string, StaticVolume, Orders, Found, string])[] = [
    ['new', fresh, idle, nothing, 'create'],
    ['crashed during or right after lvcreate', fresh, idle, created, 'create'],
    ['crashed after mkfs, mount, or before the answer', fresh, idle, used, 'use'],
    ['crashed after the tags of an adopted volume', { ...fresh, adopt: true }, idle, adopted, 'use'],
    ['already bound', processed, bound, used, 'use'],
    ['a foreign volume has its name', fresh, idle, plain, 'take if empty'],
    ['a foreign volume is to be adopted', { ...fresh, adopt: true }, idle, plain, 'adopt'],
    ['k8s-local-pv processed it', processed, idle, plain, 'adopt'],
    ['the PersistentVolume was re-created', processed, idle, ofEarlier, 'adopt'],

    ['released', processed, released, used, 'release'],
    ['crashed while the volume was emptied', processed, released, erasing, 'release'],
    ['crashed after the volume was emptied', processed, released, created, 'create'],
    ['crashed after the new filesystem was created', processed, released, used, 'release'],
    ['released, but not adopted yet', processed, released, plain, 'adopt'],
    ['released, and its data is kept', kept, released, used, 'use'],

    ['deleted before anything was created', fresh, deleted, nothing, 'confirm'],
    ['deleted, it named a volume group that does not exist', fresh, deleted, nowhere, 'confirm'],
    ['deleted after a crash during creation', fresh, deleted, created, 'remove'],
    ['deleted', processed, deleted, used, 'remove'],
    ['deleted while bound', processed, { ...deleted, isBound: true }, used, 'nothing'],
    ['deleted, crashed during the erasure', processed, deleted, erasing, 'remove'],
    ['deleted, crashed after the removal', processed, deleted, nothing, 'confirm'],
    ['deleted and confirmed', processed, { ...deleted, isRemoved: true }, nothing, 'nothing'],
    [
      'confirmed, and somebody has created another volume',
      processed,
      { ...deleted, isRemoved: true },
      plain,
      'nothing',
    ],
    ['deleted before a volume of k8s-local-pv was adopted', processed, deleted, plain, 'adopt and remove'],
    ['deleted, and released', processed, { ...deleted, releasedBy: 'claim-1' }, used, 'remove'],
    ['deleted, a foreign volume has its name', fresh, deleted, plain, 'confirm'],
    ['deleted, its volume was to be adopted', { ...fresh, adopt: true }, deleted, plain, 'confirm'],
    ['deleted, the adoption has never succeeded', { ...fresh, adopt: true }, deleted, adopted, 'confirm'],
    ['deleted after the adoption', processed, deleted, adopted, 'remove'],
    [
      'deleted, an earlier volume was never adopted successfully',
      { ...fresh, adopt: true },
      deleted,
      readopted,
      'confirm',
    ],
    ['deleted, and its name belongs to a claim', processed, deleted, ofClaim, 'confirm'],
    ['deleted, its volume group was changed in the request', thin, deleted, used, 'remove'],
  ];
  for (const [when, wanted, orders, state, step] of rows)
    assert.equal(nextStep(wanted, orders, state).kind, step, when);
});

test('what needs a person is refused, with a remedy', () => {
  const rows: readonly (readonly [StaticVolume, Orders, Found, RegExp])[] = [
    [processed, idle, nothing, /^the volume was processed, but volume group vg0 has no volume db now, and nothing is/],
    [processed, bound, nothing, /see docs\/static-volumes\.md#remove$/],
    [processed, released, nothing, /has no volume db now/],
    [fresh, idle, erasing, /volume db is being erased/],
    [fresh, idle, ofEarlier, /belonged to an earlier PersistentVolume db, .*; set moorage.dev\/adopt: "true"/],
    [processed, idle, ofClaim, /belongs to LogicalVolume pvc-1; give/],
    [processed, idle, found('foreign', 'ephemeral'), /is an inline volume of a pod/],
    [
      processed,
      idle,
      { kind: 'foreign', pool, volume: { ...volumeWith(), readOnly: true } },
      /is read-only; give the PersistentVolume another name$/,
    ],
    [thin, idle, used, /is in volume group vg0, not in device class thin; .*: request volume group vg0 again$/],
    [
      { ...processed, place: { volumeGroup: 'vg1' } },
      idle,
      used,
      /volume db is in volume group vg0, not in volume group vg1; a volume is never moved/,
    ],
  ];
  for (const [wanted, orders, state, message] of rows) {
    assert.throws(() => nextStep(wanted, orders, state), { message });
  }
});
