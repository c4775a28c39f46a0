import { WireReader, wireType } from './wire-reader.ts';

/** The fields of a part of a descriptor, whose meaning only the reader knows. */
export class DescriptorValues {
  readonly #numbers = new Map<number, number>();
  readonly #counted = new Map<number, Buffer[]>();

  constructor(bytes: Uint8Array) {
    const reader = WireReader.of(bytes);
    while (!reader.isAtEnd) {
      const tag = reader.tag();
      const number = tag >>> 3;
      if ((tag & 7) === wireType.varint) this.#numbers.set(number, reader.int32());
      else this.#counted.set(number, [...(this.#counted.get(number) ?? []), reader.bytes()]);
    }
  }

  number(number: number): number | undefined {
    return this.#numbers.get(number);
  }

  isTrue(number: number): boolean {
    return this.#numbers.get(number) === 1;
  }

  text(number: number): string {
    return this.#counted.get(number)?.[0]?.toString('utf8') ?? '';
  }

  parts(number: number): readonly DescriptorValues[] {
    return this.#counted.get(number)?.map((bytes) => new DescriptorValues(bytes)) ?? [];
  }
}
