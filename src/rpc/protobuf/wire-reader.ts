import { isUtf8 } from 'node:buffer';

/** How the bytes behind a field's number are laid out. */
export const wireType = { varint: 0, eightBytes: 1, counted: 2, fourBytes: 5 } as const;

/** Bytes that cannot be what they should be. */
export class Malformed extends Error {}

/** Reads Protobuf's encoding, and never beyond its end. */
export class WireReader {
  readonly #bytes: Buffer;
  readonly #end: number;
  #at: number;
  // The halves of the last varint: a number cannot hold all of its 64 bits.
  #low = 0;
  #high = 0;

  static of(bytes: Uint8Array): WireReader {
    return new WireReader(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength), 0, bytes.byteLength);
  }

  private constructor(bytes: Buffer, start: number, end: number) {
    this.#bytes = bytes;
    this.#at = start;
    this.#end = end;
  }

  get isAtEnd(): boolean {
    return this.#at === this.#end;
  }

  /** What comes next: eight times the number of a field, and how it is laid out. */
  tag(): number {
    this.#varint();
    const tag = this.#low >>> 0;
    if (tag < 8) throw new Malformed('a field has no number');
    return tag;
  }

  uint32(): number {
    this.#varint();
    return this.#low >>> 0;
  }

  int32(): number {
    this.#varint();
    return this.#low | 0;
  }

  uint64(): bigint {
    this.#varint();
    const low = BigInt(this.#low >>> 0);
    return this.#high === 0 ? low : (BigInt(this.#high >>> 0) << 32n) | low;
  }

  int64(): bigint {
    return BigInt.asIntN(64, this.uint64());
  }

  bool(): boolean {
    this.#varint();
    return (this.#low | this.#high) !== 0;
  }

  double(): number {
    return this.#bytes.readDoubleLE(this.#pass(8));
  }

  string(): string {
    const start = this.#passCounted();
    const text = this.#bytes.toString('utf8', start, this.#at);
    // This is what stands for bytes that are no UTF-8, unless somebody wrote it.
    if (text.includes('\ufffd') && !isUtf8(this.#bytes.subarray(start, this.#at))) {
      throw new Malformed('a text is not UTF-8');
    }
    return text;
  }

  /** Not copied. */
  bytes(): Buffer {
    const start = this.#passCounted();
    return this.#bytes.subarray(start, this.#at);
  }

  /** Reads what is inside this field, and no more. */
  nested(): WireReader {
    const start = this.#passCounted();
    return new WireReader(this.#bytes, start, this.#at);
  }

  skip(type: number): void {
    if (type === wireType.varint) this.#varint();
    else if (type === wireType.eightBytes) this.#pass(8);
    else if (type === wireType.counted) this.#passCounted();
    else if (type === wireType.fourBytes) this.#pass(4);
    else throw new Malformed(`a field is laid out in an unknown way, ${type}`); // groups too: nobody sends them any more
  }

  #varint(): void {
    let byte = this.#byte();
    this.#low = byte & 0x7f;
    this.#high = 0;
    for (let shift = 7; byte >= 0x80; shift += 7) {
      if (shift === 70) throw new Malformed('a number has no end');
      byte = this.#byte();
      const bits = byte & 0x7f;
      if (shift <= 28) this.#low |= bits << shift;
      if (shift === 28) this.#high = bits >> 4;
      if (shift > 28) this.#high |= bits << (shift - 32);
    }
  }

  #byte(): number {
    if (this.#at === this.#end) throw new Malformed('it ends too early');
    return this.#bytes[this.#at++] ?? 0;
  }

  /** Bytes with their count before them; returns where they begin. */
  #passCounted(): number {
    this.#varint();
    if (this.#high !== 0) throw new Malformed('it ends too early');
    return this.#pass(this.#low >>> 0);
  }

  /** Returns where it was. */
  #pass(count: number): number {
    const start = this.#at;
    if (count > this.#end - start) throw new Malformed('it ends too early');
    this.#at = start + count;
    return start;
  }
}
