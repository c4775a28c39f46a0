/** Writes Protobuf's encoding. A number that its type has no room for is refused: cut, it would be another one. */
export class WireWriter {
  #bytes = Buffer.allocUnsafe(256);
  #length = 0;

  /** All that was written; the writer is not used any more. */
  finish(): Uint8Array {
    return this.#bytes.subarray(0, this.#length);
  }

  tag(number: number, type: number): this {
    return this.#varint(number * 8 + type);
  }

  uint32(value: number): this {
    if (value >>> 0 !== value) throw new RangeError(`${value} is no unsigned number of 32 bits`);
    return this.#varint(value);
  }

  int32(value: number): this {
    if ((value | 0) !== value) throw new RangeError(`${value} is no number of 32 bits`);
    return value < 0 ? this.int64(BigInt(value)) : this.#varint(value);
  }

  uint64(value: bigint): this {
    if (BigInt.asUintN(64, value) !== value) throw new RangeError(`${value} is no unsigned number of 64 bits`);
    let rest = value;
    this.#makeRoom(10);
    for (; rest > Number.MAX_SAFE_INTEGER; rest >>= 7n) this.#bytes[this.#length++] = Number(rest & 0x7fn) | 0x80;
    return this.#varint(Number(rest));
  }

  int64(value: bigint): this {
    if (BigInt.asIntN(64, value) !== value) throw new RangeError(`${value} is no number of 64 bits`);
    return this.uint64(BigInt.asUintN(64, value));
  }

  bool(value: boolean): this {
    return this.#varint(value ? 1 : 0);
  }

  double(value: number): this {
    this.#makeRoom(8);
    this.#length = this.#bytes.writeDoubleLE(value, this.#length);
    return this;
  }

  string(value: string): this {
    return this.nested(() => {
      this.#makeRoom(value.length * 3); // a character of UTF-16 is at most three bytes of UTF-8
      this.#length += this.#bytes.write(value, this.#length);
    });
  }

  /** What `write` adds, with its count before it. */
  nested(write: () => void): this {
    this.#makeRoom(1);
    const start = ++this.#length; // room for the count, if it is small
    write();
    const count = this.#length - start;
    if (count < 0x80) {
      this.#bytes[start - 1] = count;
      return this;
    }
    const more = this.#varint(count).#length - start - count - 1;
    this.#bytes.copyWithin(start + more, start, start + count);
    this.#length = start - 1;
    this.#varint(count);
    this.#length += count;
    return this;
  }

  /** Bytes that are encoded already, as they are. */
  raw(bytes: Uint8Array): this {
    this.#makeRoom(bytes.length);
    this.#bytes.set(bytes, this.#length);
    this.#length += bytes.length;
    return this;
  }

  #varint(value: number): this {
    this.#makeRoom(10);
    let rest = value;
    for (; rest > 0x7fffffff; rest = Math.floor(rest / 0x80)) this.#bytes[this.#length++] = (rest % 0x80) | 0x80;
    for (; rest > 0x7f; rest >>>= 7) this.#bytes[this.#length++] = (rest & 0x7f) | 0x80;
    this.#bytes[this.#length++] = rest;
    return this;
  }

  #makeRoom(count: number): void {
    if (this.#length + count <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafe(Math.max(this.#bytes.length * 2, this.#length + count));
    this.#bytes.copy(larger, 0, 0, this.#length);
    this.#bytes = larger;
  }
}
