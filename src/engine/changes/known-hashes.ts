/** What is hashed at once, and sent in one frame at most. */
export const pieceBytes = 1024 ** 2;
const hashBytes = 32;

/** The SHA-256 of each piece that a copy has on its disk. Threads share the table. */
export class KnownHashes {
  readonly table: SharedArrayBuffer;
  readonly #hashes: Uint8Array<SharedArrayBuffer>;

  constructor(table: SharedArrayBuffer) {
    this.table = table;
    this.#hashes = new Uint8Array(table);
  }

  /** Knows nothing yet. */
  static of(sizeBytes: bigint | number): KnownHashes {
    return new KnownHashes(new SharedArrayBuffer(Math.ceil(Number(sizeBytes) / pieceBytes) * hashBytes));
  }

  has(offset: number, hash: Uint8Array): boolean {
    return Buffer.compare(this.#entry(offset), hash) === 0;
  }

  set(offset: number, hash: Uint8Array): void {
    this.#entry(offset).set(hash);
  }

  /** Before a piece is sent: the copy may get it, or not. */
  forget(offset: number): void {
    this.#entry(offset).fill(0);
  }

  #entry(offset: number): Uint8Array {
    const at = (offset / pieceBytes) * hashBytes;
    return this.#hashes.subarray(at, at + hashBytes);
  }
}
