import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { checkNewTags, checkVolumeId } from '../engine/names-and-tags.ts';
import { idFor, isOurId, recordIn, tagsOf, type VolumeRecord } from './volume-record.ts';

const text = fc.string({ unit: 'grapheme', maxLength: 40 });
const records: fc.Arbitrary<VolumeRecord> = fc.record(
  {
    kind: fc.constantFrom('volume' as const, 'snapshot' as const),
    name: fc.string({ unit: 'grapheme', minLength: 1, maxLength: 100 }),
    deviceClass: text,
    lvcreateOptionClass: text,
    isEncrypted: fc.boolean(),
    sizeBytes: fc.bigInt({ min: 1n, max: 2n ** 60n }),
    source: fc.record({ kind: fc.constantFrom('volume' as const, 'snapshot' as const), id: fc.uuid() }),
    createdAt: fc.date({ min: new Date(0), max: new Date('9999-12-31'), noInvalidDate: true }),
  },
  {
    requiredKeys: ['kind', 'name', 'deviceClass', 'lvcreateOptionClass', 'isEncrypted', 'sizeBytes', 'createdAt'],
    noNullPrototype: true,
  },
);

test('every record is read back unchanged from its tags, among any others', () => {
  fc.assert(
    fc.property(records, (drawn) => {
      const record = structuredClone(drawn); // fast-check's own have no prototype
      const tags = tagsOf(record);
      checkNewTags(tags);
      assert.deepEqual(recordIn(['moorage.dev/created', ...tags, 'ephemeral']), record);
    }),
  );
});

test('a foreign volume has no record', () => {
  assert.equal(recordIn(['moorage.dev/created', 'moorage.dev/volume=pvc-1', 'moorage.dev/claim=shop/db']), undefined);
});

test('an id is derived from kind and name, and is valid in every pool', () => {
  fc.assert(
    fc.property(fc.string(), (name) => {
      const id = idFor('volume', name);
      checkVolumeId(id);
      assert.ok(isOurId(id));
      assert.equal(idFor('volume', name), id);
      assert.notEqual(idFor('snapshot', name), id);
    }),
  );
  assert.ok(!isOurId('3f0c9c3e-7a5f-4b43-9d6e-0a5d8c0f6a11'), "a random id is a LogicalVolume's");
});
