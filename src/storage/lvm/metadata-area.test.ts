import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import * as fc from 'fast-check';
import { findMetadataArea, MetadataAreas, readSequenceNumber } from './metadata-area.ts';

const areaAt = 4096;
const textAt = 8192;

/** The beginning of a physical volume, as LVM writes it. */
function physicalVolume(sequenceNumber: number): Buffer {
  const disk = Buffer.alloc(areaAt + textAt + 4096);
  disk.write('LABELONE', 512, 'latin1');
  disk.writeUInt32LE(32, 512 + 20);
  const areas = 512 + 32 + 40;
  disk.writeBigUInt64LE(1048576n, areas); // one data area, which reaches to the end
  disk.writeBigUInt64LE(BigInt(areaAt), areas + 32);
  disk.writeBigUInt64LE(1044480n, areas + 40);
  disk.write(' LVM2 x[5A%r0N*>', areaAt + 4, 'latin1');
  disk.writeBigUInt64LE(BigInt(textAt), areaAt + 40);
  disk.write(`vg-1.x {\nid = "WydrbH-S1lG"\nseqno = ${sequenceNumber}\nformat = "lvm2"\n`, areaAt + textAt, 'latin1');
  return disk;
}

async function device(t: TestContext, content: Buffer): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'moorage-'));
  t.after(() => rm(dir, { recursive: true }));
  await writeFile(join(dir, 'device'), content);
  return join(dir, 'device');
}

test('the sequence number is read from the devices that have one, and each change is seen', async (t) => {
  const areas = new MetadataAreas();
  const first = await device(t, Buffer.alloc(8192));
  const second = await device(t, physicalVolume(624));
  const devices = ['/no/such/device', first, second];
  assert.equal(await areas.sequenceNumberOf('vg-1.x', devices), 624);
  await writeFile(second, physicalVolume(625));
  assert.equal(await areas.sequenceNumberOf('vg-1.x', devices), 625);
  await writeFile(second, Buffer.alloc(8192));
  assert.equal(await areas.sequenceNumberOf('vg-1.x', devices), undefined);
});

test('the newest metadata of the group counts; ignored, old and foreign areas do not', async (t) => {
  const areas = new MetadataAreas();
  const ignored = physicalVolume(900);
  ignored.writeUInt32LE(1, areaAt + 60);
  const devices = await Promise.all([ignored, physicalVolume(3), physicalVolume(7)].map((disk) => device(t, disk)));
  assert.equal(await areas.sequenceNumberOf('vg-1.x', devices), 7);
  assert.equal(await areas.sequenceNumberOf('vg-1', devices), undefined);
});

test('a device without metadata, or with another content, tells nothing and harms nothing', async () => {
  const disk = physicalVolume(7);
  const readAt = (content: Buffer) => async (position: number, length: number) =>
    content.subarray(position, position + length);
  assert.equal(findMetadataArea(disk.subarray(0, 2048)), areaAt);
  assert.equal(await readSequenceNumber(readAt(disk), areaAt, 'vg-1.x'), 7);
  const change = fc.record({ at: fc.nat(disk.length - 1), bytes: fc.uint8Array({ minLength: 1, maxLength: 16 }) });
  await fc.assert(
    fc.asyncProperty(fc.array(change, { maxLength: 8 }), fc.nat(disk.length), async (changes, length) => {
      const broken = Buffer.from(disk);
      for (const { at, bytes } of changes) broken.set(bytes.subarray(0, disk.length - at), at);
      const cut = broken.subarray(0, length);
      const found = findMetadataArea(cut.subarray(0, 2048));
      if (found === undefined) return;
      const sequenceNumber = await readSequenceNumber(readAt(cut), found, 'vg-1.x');
      assert.ok(sequenceNumber === undefined || Number.isSafeInteger(sequenceNumber));
    }),
    { numRuns: 2000 },
  );
});
