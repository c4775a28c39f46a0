import { constants, open } from 'node:fs/promises';
import { alignedBuffer } from '../../base/aligned-buffer.ts';
import type { BlockMap } from '../changes/block-map.ts';
import { NoCheckpoints } from '../changes/checkpoint-tracking.ts';

const magic = 0x70416e53; // "SnAp"
const supportedVersion = 1;
const sectorBytes = 512;
const exceptionBytes = 16;

/** Reads that many bytes, at most until the next read. */
export type ReadChunk = (position: number, length: number) => Promise<Uint8Array>;

/**
 * Reads from the store of a copy-on-write snapshot which chunks of its origin have changed since. The kernel records a
 * chunk there, on the disk, before it lets the origin change.
 *
 * The first chunk is a header. Then areas follow: a chunk of exceptions (the chunk in the origin, the chunk in the store),
 * and the chunks that they mean. The store itself is never chunk 0, so a zero ends the list.
 */
export async function readExceptions(read: ReadChunk, changed: BlockMap): Promise<void> {
  const header = viewOf(await read(0, sectorBytes));
  const [found, isValid, version] = [0, 4, 8].map((at) => header.getUint32(at, true));
  const chunkBytes = header.getUint32(12, true) * sectorBytes;
  if (found !== magic || version !== supportedVersion || chunkBytes === 0) {
    throw new NoCheckpoints(`the store of the copy-on-write snapshot has an unknown format (version ${version})`);
  }
  if (isValid !== 1) throw new StoreOverflowed();
  const perArea = chunkBytes / exceptionBytes;
  for (let area = 0; ; area++) {
    const exceptions = viewOf(await read((1 + area * (perArea + 1)) * chunkBytes, chunkBytes));
    for (let at = 0; at < chunkBytes; at += exceptionBytes) {
      if (exceptions.getBigUint64(at + 8, true) === 0n) return;
      changed.mark('data', Number(exceptions.getBigUint64(at, true)) * chunkBytes, chunkBytes);
    }
  }
}

/** Past the page cache, where the kernel itself reads and writes. */
export async function readExceptionsOf(storePath: string, chunkBytes: number, changed: BlockMap): Promise<void> {
  await using store = await open(storePath, constants.O_RDONLY | constants.O_DIRECT);
  const buffer = alignedBuffer(chunkBytes);
  await readExceptions(async (position) => {
    const { bytesRead } = await store.read(buffer, 0, chunkBytes, position);
    return buffer.fill(0, bytesRead); // a full store ends in the middle of an area
  }, changed);
}

/** More was written to the origin than the store has room for. The origin itself is not affected. */
export class StoreOverflowed extends NoCheckpoints {
  constructor() {
    super(
      'more was written to it than the free space of its volume group can track; add disks, or move it again later',
    );
  }
}

function viewOf({ buffer, byteOffset, byteLength }: Uint8Array): DataView {
  return new DataView(buffer, byteOffset, byteLength);
}
