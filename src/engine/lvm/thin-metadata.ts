import { messageOf } from '../../base/errors.ts';
import { CommandFailed, type RunOptions } from '../../base/exec.ts';
import type { BlockMap } from '../changes/block-map.ts';
import { NoCheckpoints } from '../changes/checkpoint-tracking.ts';
import type { Lvm } from './lvm.ts';
import { deviceMapperName, ThinDeviceUnexpected } from './thin-device.ts';

const sectorBytes = 512;
/** The tools read the mappings of a whole volume: some hundred megabytes for a terabyte. */
const timeoutMs = 30 * 60_000;

/**
 * The mappings of the volumes of a thin pool. The metadata of a pool in use changes all the time, so the tools read a
 * metadata snapshot. The kernel allows one for each pool, and keeps it until it is released, also across reboots.
 */
export class ThinMetadata {
  readonly #lvm: Lvm;
  readonly #poolDevice: string;
  readonly #metadataPath: string;

  constructor(lvm: Lvm, group: string, pool: string) {
    this.#lvm = lvm;
    this.#poolDevice = `${deviceMapperName(group, pool)}-tpool`;
    this.#metadataPath = `/dev/mapper/${deviceMapperName(group, `${pool}_tmeta`)}`;
  }

  /** Versions 1.0.0 to 1.0.5 of thin_delta do not show all differences. */
  async mustBeReadable(): Promise<void> {
    const version = await this.#lvm.tool('thin_delta', ['--version']).catch((cause: unknown) => {
      throw new NoCheckpoints(`thin_delta does not run (${messageOf(cause)}); install thin-provisioning-tools`, {
        cause,
      });
    });
    if (!showsAllDifferences(version)) {
      throw new NoCheckpoints(
        `thin_delta ${version.trim()} misses changes; install thin-provisioning-tools 1.0.6 or later`,
      );
    }
  }

  /** Whether anybody has reserved the metadata snapshot. */
  async isReserved(): Promise<boolean> {
    return isReservedIn(await this.#lvm.tool('dmsetup', ['status', '--noflush', this.#poolDevice]));
  }

  /** False if the kernel refuses, as it does if somebody else has reserved it. */
  async reserve(): Promise<boolean> {
    try {
      await this.#message('reserve_metadata_snap');
      return true;
    } catch (error) {
      if (error instanceof CommandFailed) return false;
      throw error;
    }
  }

  async release(): Promise<void> {
    await this.#message('release_metadata_snap');
  }

  /** While it is reserved: marks what the volume with this number has mapped; the rest reads as zeros. */
  async readMappings(thinId: number, blocks: BlockMap, signal: AbortSignal): Promise<void> {
    const parser = new MappingParser(blocks);
    await this.#read('thin_dump', ['--dev-id', String(thinId)], parser, signal);
  }

  /** While it is reserved: marks what the second volume has mapped differently from the first, or no longer. */
  async readDifferences(from: number, to: number, blocks: BlockMap, signal: AbortSignal): Promise<void> {
    const parser = new DifferenceParser(blocks);
    await this.#read('thin_delta', ['--snap1', String(from), '--snap2', String(to)], parser, signal);
  }

  async #read(tool: string, words: readonly string[], parser: LineParser, signal: AbortSignal): Promise<void> {
    const options: Partial<RunOptions> = { timeoutMs, signal, onStdout: (piece) => parser.push(piece) };
    await this.#lvm.tool(tool, ['--metadata-snap', ...words, this.#metadataPath], options);
    parser.mustBeComplete(tool);
  }

  async #message(message: string): Promise<void> {
    await this.#lvm.tool('dmsetup', ['message', this.#poolDevice, '0', message]);
  }
}

export function showsAllDifferences(version: string): boolean {
  const [, major, minor, patch] = /(\d+)\.(\d+)\.(\d+)/.exec(version)?.map(Number) ?? [];
  if (major === undefined || minor === undefined || patch === undefined) return false;
  return major !== 1 || minor !== 0 || patch >= 6;
}

/** `0 524288 thin-pool 3 114/1024 51/4096 58 rw …`: the block of the metadata snapshot follows the usage, or a dash. */
export function isReservedIn(status: string): boolean {
  const [, root] = /^\d+ \d+ thin-pool \d+ \d+\/\d+ \d+\/\d+ (\d+|-) /.exec(status.trim()) ?? [];
  if (root === undefined) {
    throw new ThinDeviceUnexpected(
      `unexpected thin pool status ${JSON.stringify(status.trim())}; if the pool failed, run lvconvert --repair`,
    );
  }
  return root !== '-';
}

/** Reads the tools' XML, one element in each line, as it arrives: there can be millions of lines. */
abstract class LineParser {
  protected blockBytes = 0;
  readonly #blocks: BlockMap;
  #rest = '';
  #isComplete = false;

  constructor(blocks: BlockMap) {
    this.#blocks = blocks;
  }

  push(piece: Buffer): void {
    const lines = (this.#rest + piece.toString('latin1')).split('\n');
    this.#rest = lines.pop() ?? '';
    for (const line of lines) {
      const [, blockSectors] = /<superblock .*data_block_size="(\d+)"/.exec(line) ?? [];
      if (blockSectors !== undefined) this.blockBytes = Number(blockSectors) * sectorBytes;
      else if (line.startsWith('</superblock>')) this.#isComplete = true;
      else this.parse(line);
    }
  }

  /** What is not understood must not count as unchanged. */
  mustBeComplete(tool: string): void {
    if (this.#isComplete && this.blockBytes > 0 && this.isWhole()) return;
    throw new NoCheckpoints(`the output of ${tool} is incomplete or has an unknown format`);
  }

  protected mark(kind: 'data' | 'zero', begin: string | undefined, length: string | undefined): void {
    this.#blocks.mark(kind, Number(begin) * this.blockBytes, Number(length) * this.blockBytes);
  }

  protected abstract parse(line: string): void;
  protected abstract isWhole(): boolean;
}

export class DifferenceParser extends LineParser {
  #isUnderstood = true;

  protected parse(line: string): void {
    const [, kind, begin, length] = /^\s*<(\w+) begin="(\d+)" length="(\d+)"\s*\/>/.exec(line) ?? [];
    if (kind === 'different' || kind === 'right_only') this.mark('data', begin, length);
    else if (kind === 'left_only') this.mark('zero', begin, length);
    else if (kind !== 'same' && !/^\s*<\/?diff\b/.test(line)) this.#isUnderstood = false;
  }

  protected isWhole(): boolean {
    return this.#isUnderstood;
  }
}

export class MappingParser extends LineParser {
  #expected = -1;
  #found = 0;

  protected parse(line: string): void {
    const [, expected] = /<device .*mapped_blocks="(\d+)"/.exec(line) ?? [];
    if (expected !== undefined) this.#expected = Number(expected);
    const [, single] = /<single_mapping origin_block="(\d+)"/.exec(line) ?? [];
    const [, begin = single, length = '1'] =
      /<range_mapping origin_begin="(\d+)" data_begin="\d+" length="(\d+)"/.exec(line) ?? [];
    if (begin === undefined) return;
    this.mark('data', begin, length);
    this.#found += Number(length);
  }

  protected isWhole(): boolean {
    return this.#found === this.#expected;
  }
}
