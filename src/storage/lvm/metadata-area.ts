import { open } from 'node:fs/promises';

const sectorBytes = 512;
const labelId = 'LABELONE';
const labelSectors = 4; // LVM writes its label into one of the first four
const areaMagic = ' LVM2 x[5A%r0N*>';
const areaMagicAt = 4;
const firstLocationAt = 40;
const flagsAt = firstLocationAt + 20;
/** LVM writes nothing more to an area that it was told to ignore; what is there is old. */
const ignoredFlag = 1;
/** Name, id and sequence number stand in the first lines of a volume group's metadata. */
const headBytes = 512;
const maxAreaBytes = 2n ** 40n;

/** Reads some bytes of a device. */
export type ReadAt = (position: number, length: number) => Promise<Buffer>;

/**
 * The sequence number of the group in the metadata area that begins there: LVM counts it up with each change of the
 * group, so two reads tell whether anything has changed, without a process. Undefined where the area does not tell.
 */
export async function readSequenceNumber(readAt: ReadAt, areaAt: number, group: string): Promise<number | undefined> {
  const header = await readAt(areaAt, sectorBytes);
  if (header.length < sectorBytes) return undefined;
  if (header.toString('latin1', areaMagicAt, areaMagicAt + areaMagic.length) !== areaMagic) return undefined;
  if (header.readUInt32LE(flagsAt) & ignoredFlag) return undefined;
  const textAt = header.readBigUInt64LE(firstLocationAt);
  if (textAt === 0n || textAt > maxAreaBytes) return undefined;
  const head = await readAt(areaAt + Number(textAt), headBytes);
  const match = /^(\S+) \{\s*id = "[^"]*"\s+seqno = (\d{1,15})\s/.exec(head.toString('latin1'));
  return match?.[1] === group ? Number(match[2]) : undefined;
}

/** Where the first metadata area begins, as the label says. */
export function findMetadataArea(start: Buffer): number | undefined {
  for (let sector = 0; sector < labelSectors; sector++) {
    const label = start.subarray(sector * sectorBytes, (sector + 1) * sectorBytes);
    if (label.length === sectorBytes && label.toString('latin1', 0, 8) === labelId) return metadataAreaIn(label);
  }
  return undefined;
}

const headerOffsetAt = 20;
const areasAt = 40; // after the uuid and the size of the device
const areaBytes = 16;

/** The header lists data areas, an empty one, metadata areas, and an empty one; each is an offset and a size. */
function metadataAreaIn(label: Buffer): number | undefined {
  let at = label.readUInt32LE(headerOffsetAt) + areasAt;
  let lists = 0;
  for (; at + areaBytes <= label.length; at += areaBytes) {
    const offset = label.readBigUInt64LE(at);
    if (offset === 0n) lists++;
    else if (lists === 1) return offset < maxAreaBytes ? Number(offset) : undefined;
    if (lists === 2) return undefined;
  }
  return undefined;
}

/** Reads the metadata of volume groups, and remembers where on each device it is. */
export class MetadataAreas {
  readonly #areaAt = new Map<string, number>();

  /** The highest of its devices: one that was away for a while has an old one, which LVM does not go by either. */
  async sequenceNumberOf(group: string, devices: readonly string[]): Promise<number | undefined> {
    let highest: number | undefined;
    for (const device of devices) {
      try {
        const sequenceNumber = await this.#read(device, group);
        if (sequenceNumber !== undefined) highest = Math.max(sequenceNumber, highest ?? 0);
      } catch {
        // Another device may tell; if none does, LVM is asked.
      }
    }
    return highest;
  }

  async #read(device: string, group: string): Promise<number | undefined> {
    await using file = await open(device, 'r');
    const readAt: ReadAt = async (position, length) => {
      const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, position);
      return buffer.subarray(0, bytesRead);
    };
    const areaAt = this.#areaAt.get(device) ?? findMetadataArea(await readAt(0, labelSectors * sectorBytes));
    const sequenceNumber = areaAt === undefined ? undefined : await readSequenceNumber(readAt, areaAt, group);
    if (sequenceNumber === undefined || areaAt === undefined) this.#areaAt.delete(device);
    else this.#areaAt.set(device, areaAt);
    return sequenceNumber;
  }
}
