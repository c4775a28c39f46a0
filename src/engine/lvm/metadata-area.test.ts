import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import * as fc from 'fast-check';
import { findLabel, MetadataAreas, readSequenceNumber } from './metadata-area.ts';

const areaAt = 4096;
const textAt = 8192;
const uuid = 'WydrbHS1lGWydrbHS1lGWydrbHS1lGWy';

/** The beginning of a physical volume, as LVM writes it. */
function physicalVolume(sequenceNumber: number): Buffer {
  const disk = Buffer.alloc(areaAt + textAt + 4096);
  disk.write('LABELONE', 512, 'latin1');
  disk.writeUInt32LE(32, 512 + 20);
  disk.write(uuid, 512 + 32, 'latin1');
  const areas = 512 + 32 + 40;
  disk.writeBigUInt64LE(1048576n, areas); // one data area, up to the end
  disk.writeBigUInt64LE(BigInt(areaAt), areas + 32);
  disk.writeBigUInt64LE(1044480n, areas + 40);
  disk.write(' LVM2 x[5A%r0N*>', areaAt + 4, 'latin1');
  disk.writeBigUInt64LE(BigInt(textAt), areaAt + 40);
  disk.write(`vg-1.x {\nid = "WydrbH-S1lG"\nseqno = ${sequenceNumber}\nformat = "lvm2"\n`, areaAt + textAt, 'latin1');
  return disk;
}

async function newDisk(t: TestContext, content: Buffer) {
  const dir = await mkdtemp(join(tmpdir(), 'moorage-'));
  t.after(() => rm(dir, { recursive: true }));
  const path = join(dir, 'device');
  await writeFile(path, content);
  return { path, uuid };
}

/** A disk of the group without metadata. */
function withoutArea(): Buffer {
  const disk = physicalVolume(900);
  disk.fill(0, 512 + 32 + 40 + 32, 512 + 32 + 40 + 48);
  return disk;
}

test('the sequence number is read from the disks that have one, and each change is detected', async (t) => {
  const areas = new MetadataAreas('vg-1.x');
  const disks = [await newDisk(t, withoutArea()), await newDisk(t, physicalVolume(624))] as const;
  assert.equal(await areas.sequenceNumberOf(disks), 624);
  await writeFile(disks[1].path, physicalVolume(625));
  assert.equal(await areas.sequenceNumberOf(disks), 625);
  assert.equal(await new MetadataAreas('vg-1').sequenceNumberOf(disks), undefined);
});

test('a missing or replaced disk makes the sequence number unknown', async (t) => {
  const areas = new MetadataAreas('vg-1.x');
  const disks = [await newDisk(t, physicalVolume(7)), await newDisk(t, withoutArea())] as const;
  assert.equal(await areas.sequenceNumberOf(disks), 7);
  for (const { path } of disks) {
    const content = await readFile(path);
    const other = Buffer.from(content);
    other.write('another', 512 + 32, 'latin1');
    other.fill(0, areaAt);
    for (const replaced of [Buffer.alloc(16384), Buffer.alloc(0), other]) {
      await writeFile(path, replaced);
      assert.equal(await areas.sequenceNumberOf(disks), undefined);
    }
    await rm(path);
    assert.equal(await areas.sequenceNumberOf(disks), undefined);
    await writeFile(path, content);
    assert.equal(await areas.sequenceNumberOf(disks), 7);
  }
});

test('the newest metadata of the group counts; ignored and old areas do not', async (t) => {
  const ignored = physicalVolume(900);
  ignored.writeUInt32LE(1, areaAt + 60);
  const disks = await Promise.all([ignored, physicalVolume(3), physicalVolume(7)].map((disk) => newDisk(t, disk)));
  assert.equal(await new MetadataAreas('vg-1.x').sequenceNumberOf(disks), 7);
});

test('corrupted metadata never yields an invalid sequence number', async () => {
  const disk = physicalVolume(7);
  const readAt = (content: Buffer) => async (position: number, length: number) =>
    content.subarray(position, position + length);
  assert.deepEqual(findLabel(disk.subarray(0, 2048)), { uuid, areaAt });
  assert.equal(await readSequenceNumber(readAt(disk), areaAt, 'vg-1.x'), 7);
  const change = fc.record({ at: fc.nat(disk.length - 1), bytes: fc.uint8Array({ minLength: 1, maxLength: 16 }) });
  await fc.assert(
    fc.asyncProperty(fc.array(change, { maxLength: 8 }), fc.nat(disk.length), async (changes, length) => {
      const broken = Buffer.from(disk);
      for (const { at, bytes } of changes) broken.set(bytes.subarray(0, disk.length - at), at);
      const cut = broken.subarray(0, length);
      const found = findLabel(cut.subarray(0, 2048))?.areaAt;
      if (found === undefined) return;
      const sequenceNumber = await readSequenceNumber(readAt(cut), found, 'vg-1.x');
      assert.ok(sequenceNumber === undefined || Number.isSafeInteger(sequenceNumber));
    }),
    { numRuns: 2000 },
  );
});
