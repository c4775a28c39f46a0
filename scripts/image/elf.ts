/** What a program or a library needs at run time: its loader and its shared libraries. */
export interface ElfDependencies {
  readonly interpreter: string | undefined;
  readonly libraries: readonly string[];
}

const segment = { load: 1, dynamic: 2, interpreter: 3 };
const tag = { end: 0n, needed: 1n, stringTable: 5n };
const dynamicEntryBytes = 16;

/** Undefined if the file is not a 64-bit little-endian ELF file, such as a script. */
export function readDependencies(file: Buffer): ElfDependencies | undefined {
  const isElf = file.length > 64 && file.readUInt32BE(0) === 0x7f454c46 && file[4] === 2 && file[5] === 1;
  if (!isElf) return undefined;

  const segments = readSegments(file);
  const interpreter = segments.find(({ type }) => type === segment.interpreter);
  const dynamic = segments.find(({ type }) => type === segment.dynamic);
  const entries: { tag: bigint; value: bigint }[] = [];
  for (let at = dynamic?.offset ?? file.length; at < file.length; at += dynamicEntryBytes) {
    const entry = { tag: file.readBigUInt64LE(at), value: file.readBigUInt64LE(at + 8) };
    if (entry.tag === tag.end) break;
    entries.push(entry);
  }
  const strings = entries.find((entry) => entry.tag === tag.stringTable)?.value ?? 0n;
  return {
    interpreter: interpreter && textAt(file, interpreter.offset),
    libraries: entries
      .filter((entry) => entry.tag === tag.needed)
      .map(({ value }) => textAt(file, fileOffset(segments, strings + value))),
  };
}

interface Segment {
  readonly type: number;
  readonly offset: number;
  readonly address: bigint;
  readonly sizeBytes: bigint;
}

function readSegments(file: Buffer): Segment[] {
  const table = Number(file.readBigUInt64LE(32));
  const entryBytes = file.readUInt16LE(54);
  return Array.from({ length: file.readUInt16LE(56) }, (_, index) => {
    const at = table + index * entryBytes;
    return {
      type: file.readUInt32LE(at),
      offset: Number(file.readBigUInt64LE(at + 8)),
      address: file.readBigUInt64LE(at + 16),
      sizeBytes: file.readBigUInt64LE(at + 32),
    };
  });
}

/** The dynamic section contains addresses in memory. */
function fileOffset(segments: readonly Segment[], address: bigint): number {
  const home = segments.find(
    (one) => one.type === segment.load && one.address <= address && address < one.address + one.sizeBytes,
  );
  if (!home) throw new Error(`no segment of the ELF file contains address ${address}; the file is damaged`);
  return home.offset + Number(address - home.address);
}

function textAt(file: Buffer, offset: number): string {
  return file.toString('latin1', offset, file.indexOf(0, offset));
}
