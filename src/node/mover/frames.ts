import { InvalidInput } from '../../base/errors.ts';
import { pieceBytes } from '../../engine/changes/known-hashes.ts';

/**
 * What the two ends of a move send each other: frames of 48 bytes, which data or a message may follow.
 *
 *     0    kind: 1 data, 2 zeros, 3 message
 *     4    length: of the data, the zeros or the message
 *     8    offset in the volume
 *     16   SHA-256 of the data
 */
export const headerBytes = 48;
const hashAt = 16;
const hashBytes = 32;
const kinds = ['data', 'zero', 'message'] as const;

/** A range of zeros can be longer than a piece of data. */
export const maxZeroBytes = 1024 ** 3;
const maxMessageBytes = 64 * 1024;

export interface Header {
  readonly kind: (typeof kinds)[number];
  readonly offset: number;
  readonly length: number;
  /** Of data only. */
  readonly hash?: Uint8Array;
}

export function encodeHeader({ kind, offset, length, hash }: Header): Buffer {
  const header = Buffer.alloc(headerBytes);
  header.writeUInt8(kinds.indexOf(kind) + 1, 0);
  header.writeUInt32LE(length, 4);
  header.writeBigUInt64LE(BigInt(offset), 8);
  if (hash) header.set(hash, hashAt);
  return header;
}

const maxBytes: Readonly<Record<Header['kind'], number>> = {
  data: pieceBytes,
  zero: maxZeroBytes,
  message: maxMessageBytes,
};

/** The other end is authenticated, but may be of another version, or broken. */
export function decodeHeader(bytes: Uint8Array): Header {
  const header = Buffer.from(bytes.buffer, bytes.byteOffset, headerBytes);
  const kind = kinds[header.readUInt8(0) - 1];
  const length = header.readUInt32LE(4);
  const offset = Number(header.readBigUInt64LE(8));
  if (kind === undefined || length > maxBytes[kind] || !Number.isSafeInteger(offset + length)) {
    throw new InvalidInput(
      'the other end of the move sent an invalid frame; use the same version of Moorage on both nodes',
    );
  }
  return { kind, offset, length, ...(kind === 'data' && { hash: header.subarray(hashAt, hashAt + hashBytes) }) };
}

export function isZero(bytes: Uint8Array): boolean {
  return zeros.compare(bytes, 0, bytes.length, 0, bytes.length) === 0;
}

const zeros = Buffer.alloc(pieceBytes);
