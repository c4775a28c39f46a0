import { open } from 'node:fs/promises';
import { dirname } from 'node:path';
import { abortable } from '../base/abortable.ts';
import { messageOf } from '../base/errors.ts';
import { CommandFailed, type Run } from '../base/exec.ts';
import type { Filesystem, Superblock } from './filesystem.ts';

/** What the device contains. "Unknown" is never "empty". */
export type Probe =
  | { readonly kind: 'empty' }
  | { readonly kind: 'found'; readonly filesystem: string; readonly uuid: string; readonly label?: string }
  | { readonly kind: 'unknown'; readonly reason: string };

export type ProbeDevice = (devicePath: string, signal: AbortSignal) => Promise<Probe>;

const timeoutMs = 30_000;
const nothingFound = 2;
/** New volumes are zeroed here, and most raw users start writing here. */
const headBytes = 4096;

/** More than blkid reads: at most 4.1 MiB at the head and 1.6 MiB at the end. */
export const probedMebibytes = { head: 8, tail: 2 } as const;

/**
 * If a read fails, for example of a RAID signature at the end of the device, blkid exits silently as if it had found
 * nothing. So everything that it may read is read first. The device stays open until blkid is done, so that the data
 * stays cached and blkid reads the same.
 */
const readThenProbe = [
  'exec 3<"$1"',
  `head --bytes=${probedMebibytes.head}M "$1" >/dev/null`,
  `tail --bytes=${probedMebibytes.tail}M "$1" >/dev/null`,
  'exec blkid --probe --output export "$1"',
].join(' && ');

/** Reads the device itself, never blkid's cache. */
export function blkid(run: Run): ProbeDevice {
  return async (devicePath, signal) => {
    try {
      const { stdout } = await run(['sh', '-c', readThenProbe, 'probe', devicePath], { timeoutMs, signal });
      return parseBlkid(stdout);
    } catch (error) {
      if (!(error instanceof CommandFailed)) throw error;
      const foundNothing = error.exitCode === nothingFound && error.stdout === '' && error.stderr === '';
      if (!foundNothing) return { kind: 'unknown', reason: error.message }; // with an error message it has not read everything
      return headOf(devicePath);
    }
  };
}

export function parseBlkid(output: string): Probe {
  const facts = new Map(
    output
      .split('\n')
      .filter((line) => line.includes('='))
      .map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
  );
  const found = facts.get('TYPE') ?? facts.get('PTTYPE');
  if (!found) return { kind: 'unknown', reason: `blkid found signatures but no type: ${output.trim()}` };
  const label = facts.get('LABEL');
  const uuid = facts.get('UUID') ?? facts.get('PTUUID') ?? '';
  return { kind: 'found', filesystem: found, uuid, ...(label !== undefined && { label }) };
}

/** Empty only if it can be read and holds only zeros. */
async function headOf(devicePath: string): Promise<Probe> {
  try {
    await using device = await open(devicePath, 'r');
    const { buffer, bytesRead } = await device.read(Buffer.alloc(headBytes), 0, headBytes, 0);
    if (bytesRead < headBytes)
      return { kind: 'unknown', reason: `only ${bytesRead} bytes of ${devicePath} can be read` };
    if (buffer.some((byte) => byte !== 0))
      return { kind: 'unknown', reason: `${devicePath} holds data of unknown type` };
    return { kind: 'empty' };
  } catch (error) {
    return { kind: 'unknown', reason: messageOf(error) };
  }
}

/**
 * Undefined if this kind of filesystem is not there, though something else may be. Busy if other devices block all reads
 * now: nothing may be decided on that.
 */
export type ReadSuperblock = (
  devicePath: string,
  filesystem: Pick<Filesystem, 'superblock'>,
  signal: AbortSignal,
) => Promise<Superblock | 'busy' | undefined>;

/**
 * Reads of hung disks block threads that all file I/O of the process shares. So each device has one read at a time, and
 * each directory of devices (a volume group, or all loop or LUKS devices) this many. Beyond that the answer is `busy`:
 * the caller runs a command instead, or retries.
 */
const readsAtOnce = 8;
const superblockBytes = 1024;

/**
 * Reads the device and runs no command. Only for recognising our own filesystems: whether a device is empty must be
 * decided by a probe, which knows all signatures.
 */
export function superblockReader(read: ReadBlock = readBlock): ReadSuperblock {
  const inProgress = new Set<string>();
  return async (devicePath, { superblock }, signal) => {
    const beside = [...inProgress].filter((path) => dirname(path) === dirname(devicePath));
    if (beside.includes(devicePath) || beside.length >= readsAtOnce) return 'busy';
    inProgress.add(devicePath);
    const reading = read(devicePath, superblock.offsetBytes).finally(() => inProgress.delete(devicePath));
    const bytes = await abortable(reading, signal);
    return bytes && superblock.parse(new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength));
  };
}

/** Undefined if the device is too short. */
type ReadBlock = (devicePath: string, offsetBytes: number) => Promise<Uint8Array | undefined>;

const readBlock: ReadBlock = async (devicePath, offsetBytes) => {
  await using device = await open(devicePath, 'r');
  const { buffer, bytesRead } = await device.read(Buffer.alloc(superblockBytes), 0, superblockBytes, offsetBytes);
  return bytesRead < superblockBytes ? undefined : buffer;
};
