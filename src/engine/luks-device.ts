import { stat } from 'node:fs/promises';
import { MoorageError } from '../base/errors.ts';
import { CommandFailed, type Run } from '../base/exec.ts';
import { exists } from '../base/exists.ts';
import { mustNotBeBound } from './device-use.ts';
import { VolumeInUse } from './errors.ts';
import { isEncrypted } from './names-and-tags.ts';
import type { Volume, VolumeId } from './pool.ts';

/** What LUKS2 takes at the start of a volume for its header, with the keys: the decrypted device is smaller by this. */
export const luksHeaderBytes = 16n * 1024n ** 2n;

/** The decrypted device of an encrypted volume while it is open. */
export function luksDevicePath(id: VolumeId): string {
  return `/dev/mapper/${mappingName(id)}`;
}

/** No LVM device has this name, as LVM doubles dashes: volume `data` of a group `moorage` is `moorage-data`. */
export function mappingName(id: VolumeId): string {
  return `moorage-luks-${id}`;
}

/** The device that pods have while they use the volume. */
export function deviceInUse(volume: Volume): string {
  return isEncrypted(volume) ? luksDevicePath(volume.id) : volume.devicePath;
}

/** A volume that may be open; without a device if it is no longer on the disks. */
export type MaybeOpen = Pick<Volume, 'id'> & Partial<Pick<Volume, 'devicePath'>>;

/** An open volume. */
export interface Mapping {
  /** The device below it. */
  readonly device: string;
  /** Where on that device the decrypted one ends; zero if unknown. */
  readonly endBytes: bigint;
}

const timeoutMs = 120_000;
/** Exit codes of cryptsetup. */
const [notThere, busy] = [4, 5];

/** Undefined if the volume is not open. Refuses to speak about another device that is open under its name. */
export async function mappingOf(run: Run, { id, devicePath }: MaybeOpen): Promise<Mapping | undefined> {
  const mapping = await statusOf(run, id);
  if (mapping && devicePath !== undefined) {
    const [open, wanted] = await Promise.all([stat(mapping.device), stat(devicePath)]);
    if (open.rdev !== wanted.rdev) throw new MappingForeign(id, luksDevicePath(id), mapping.device);
  }
  return mapping;
}

/**
 * Does nothing if the volume is not open, and runs no command if there is no such device. A volume that is mounted, or
 * published as a raw device, is refused.
 */
export async function closeMapping(run: Run, volume: MaybeOpen): Promise<void> {
  const { id } = volume;
  const path = luksDevicePath(id);
  if (!(await exists(path)) || !(await mappingOf(run, volume))) return;
  await mustNotBeBound(id, path);
  try {
    await run(['cryptsetup', 'close', mappingName(id)], { timeoutMs });
  } catch (error) {
    const isBusy = error instanceof CommandFailed && error.exitCode === busy;
    throw isBusy ? new VolumeInUse(id, path, { cause: error }) : error;
  }
}

/** Before a removal: closes what an agent that died left open. Another volume that is open under the name is left alone. */
export async function closeLeftover(run: Run, volume: MaybeOpen): Promise<void> {
  try {
    await closeMapping(run, volume);
  } catch (error) {
    if (!(error instanceof MappingForeign)) throw error;
  }
}

/**
 * Writes what is cached for the decrypted device, with the filesystem on it. LVM freezes a filesystem for a snapshot only if
 * it is directly on the volume.
 */
export async function flushMapping(run: Run, { id }: Volume): Promise<void> {
  const path = luksDevicePath(id);
  if (await exists(path)) await run(['blockdev', '--flushbufs', path], { timeoutMs });
}

async function statusOf(run: Run, id: VolumeId): Promise<Mapping | undefined> {
  try {
    const { stdout } = await run(['cryptsetup', 'status', mappingName(id)], { timeoutMs });
    return parseStatus(stdout);
  } catch (error) {
    if (error instanceof CommandFailed && error.exitCode === notThere) return undefined;
    throw error;
  }
}

/** Sizes are in units of 512 bytes, whatever the sectors of the device are. */
function parseStatus(output: string): Mapping | undefined {
  const value = (name: string) => new RegExp(`^\\s*${name}:\\s*(\\S+)`, 'm').exec(output)?.[1];
  const [device, offset = '', size = ''] = [value('device'), value('offset'), value('size')];
  if (device === undefined) return undefined;
  const areKnown = /^\d+$/.test(offset) && /^\d+$/.test(size);
  return { device, endBytes: areKnown ? (BigInt(offset) + BigInt(size)) * 512n : 0n };
}

/** Another device is open under the name of this volume. */
export class MappingForeign extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(id: VolumeId, mapping: string, backing: string) {
    super(
      `${mapping} is open on ${backing}, which is not volume ${id}; if nobody uses it, close it with cryptsetup close`,
    );
  }
}
