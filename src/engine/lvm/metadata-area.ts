import { constants, open } from 'node:fs/promises';
import { alignedBuffer, blockBytes } from '../../base/aligned-buffer.ts';
import { MoorageError } from '../../base/errors.ts';
import type { Disk } from './report.ts';

const sectorBytes = 512;
const labelId = 'LABELONE';
const labelSectors = 4; // LVM writes its label to one of the first four sectors
const areaMagic = ' LVM2 x[5A%r0N*>';
const areaMagicAt = 4;
const firstLocationAt = 40;
const flagsAt = firstLocationAt + 20;
/** LVM no longer writes to an ignored area, so its content is old. */
const ignoredFlag = 1;
/** The metadata of a volume group starts with its name, ID and sequence number. */
const headBytes = 512;
const maxAreaBytes = 2n ** 40n;

/** Reads some bytes of a device. */
export type ReadAt = (position: number, length: number) => Promise<Buffer>;

/**
 * Reads the sequence number of the group from the metadata area at `areaAt`. LVM increments it with each change, so two
 * reads show whether anything changed, without a process. Undefined if the area does not contain it.
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

/** The LVM label at the start of a disk. */
export interface Label {
  readonly uuid: string;
  /** Offset of the first metadata area; a disk may have none. */
  readonly areaAt: number | undefined;
}

export function findLabel(start: Buffer): Label | undefined {
  for (let sector = 0; sector < labelSectors; sector++) {
    const label = start.subarray(sector * sectorBytes, (sector + 1) * sectorBytes);
    if (label.length < sectorBytes || label.toString('latin1', 0, labelId.length) !== labelId) continue;
    const headerAt = label.readUInt32LE(headerOffsetAt);
    return {
      uuid: label.toString('latin1', headerAt, headerAt + uuidBytes),
      areaAt: metadataAreaIn(label, headerAt + areasAt),
    };
  }
  return undefined;
}

const headerOffsetAt = 20;
const uuidBytes = 32;
const areasAt = 40; // after the uuid and the size of the device
const areaBytes = 16;

/** The header lists data areas, then metadata areas, as offset and size; an empty entry ends each list. */
function metadataAreaIn(label: Buffer, areasAt: number): number | undefined {
  let lists = 0;
  for (let at = areasAt; at + areaBytes <= label.length; at += areaBytes) {
    const offset = label.readBigUInt64LE(at);
    if (offset === 0n) lists++;
    else if (lists === 1) return offset < maxAreaBytes ? Number(offset) : undefined;
    if (lists === 2) return undefined;
  }
  return undefined;
}

const bufferBytes = 64 * 1024;

/**
 * Reads the metadata of one volume group, for one caller at a time, and caches its offset on each disk. LVM writes past
 * the page cache. A page that was cached during such a write can stay old until LVM writes again. So reads bypass the
 * cache too.
 */
export class MetadataAreas {
  readonly #group: string;
  readonly #areaAt = new Map<string, number>();
  readonly #buffer = alignedBuffer(bufferBytes);

  constructor(group: string) {
    this.#group = group;
  }

  /**
   * The highest sequence number on the disks: a disk that was absent for a while has an old one, which LVM ignores too.
   * Undefined if a disk cannot be read or was replaced: then only LVM knows the state of the group.
   */
  async sequenceNumberOf(disks: readonly Disk[]): Promise<number | undefined> {
    let highest: number | undefined;
    try {
      for (const disk of disks) {
        const sequenceNumber = await this.#read(disk);
        if (sequenceNumber !== undefined) highest = Math.max(sequenceNumber, highest ?? 0);
      }
      return highest;
    } catch {
      return undefined;
    }
  }

  async #read({ path, uuid }: Disk): Promise<number | undefined> {
    await using file = await open(path, constants.O_RDONLY | constants.O_DIRECT);
    const readAt: ReadAt = async (position, length) => {
      const before = position % blockBytes;
      const blocks = Math.ceil((before + length) / blockBytes);
      const { bytesRead } = await file.read(this.#buffer, 0, blocks * blockBytes, position - before);
      return Buffer.from(this.#buffer.subarray(before, Math.min(before + length, bytesRead)));
    };
    const knownAt = this.#areaAt.get(path);
    const known = knownAt && (await readSequenceNumber(readAt, knownAt, this.#group));
    if (known !== undefined) return known;
    this.#areaAt.delete(path);
    const label = findLabel(await readAt(0, labelSectors * sectorBytes));
    if (label?.uuid !== uuid) throw new AnotherDisk(path);
    if (label.areaAt === undefined) return undefined;
    this.#areaAt.set(path, label.areaAt);
    return await readSequenceNumber(readAt, label.areaAt, this.#group);
  }
}

class AnotherDisk extends MoorageError {
  readonly code = 'NotFound';

  constructor(path: string) {
    super(`${path} is no longer the same disk of the volume group`);
  }
}
