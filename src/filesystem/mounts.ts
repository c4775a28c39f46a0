import type { Stats } from 'node:fs';
import { mkdir, readFile, realpath, rm, rmdir, stat, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { MoorageError } from '../base/errors.ts';
import type { Run } from '../base/exec.ts';
import { type Mount, parseMountInfo } from '../base/mountinfo.ts';

export interface MountRequest {
  readonly source: string;
  readonly target: string;
  readonly filesystem: string;
  readonly options: readonly string[];
}

export interface BindRequest {
  readonly source: string;
  readonly target: string;
  /** For this target only: other mounts of the same filesystem may be writable. */
  readonly readOnly: boolean;
}

export class MountConflict extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(target: string, wanted: string, found: string) {
    super(`cannot mount ${wanted} at ${target}: ${found} is already mounted there; unmount it first`);
  }
}

export class MountedReadOnly extends MoorageError {
  readonly code = 'AlreadyExists';

  constructor(target: string) {
    super(`${target} is already mounted read-only, writable requested; unpublish it first`);
  }
}

export class PathTaken extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(path: string, needed: string, cause: unknown) {
    super(`${path} must be ${needed}, but something else is there; move it away`, { cause });
  }
}

/** The volume is unmounted, and the data is on the node's own disk. */
export class NotEmpty extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(path: string) {
    super(`${path} is no longer a mount point but contains data; inspect it and move it away`);
  }
}

const timeoutMs = 60_000;

/**
 * The mounts that this process sees. Every method can be retried. The target must exist, and stays when it is unmounted.
 * Nothing is ever unmounted lazily or by force: a process could go on writing unseen.
 */
export class Mounts {
  readonly #run: Run;

  constructor({ run }: { readonly run: Run }) {
    this.#run = run;
  }

  /** The mount at the path itself: the topmost, if several are stacked. */
  async at(target: string): Promise<Mount | undefined> {
    const path = await withRealParent(target);
    if (path === undefined) return undefined;
    return parseMountInfo(await readFile('/proc/self/mountinfo', 'utf8')).findLast((mount) => mount.target === path);
  }

  /** The mount at the path, if it is the filesystem on this device. */
  async holding(target: string, device: string): Promise<Mount | undefined> {
    const present = await this.at(target);
    return present && (await isSameDevice(present.source, device)) ? present : undefined;
  }

  /** Where the filesystem on this device is mounted. */
  async targetsOf(device: string): Promise<readonly string[]> {
    const targets: string[] = [];
    for (const { source, target } of parseMountInfo(await readFile('/proc/self/mountinfo', 'utf8'))) {
      if (source.startsWith('/dev/') && (await isSameDevice(source, device))) targets.push(target);
    }
    return targets;
  }

  async mount({ source, target, filesystem, options }: MountRequest, signal: AbortSignal): Promise<void> {
    const present = await this.at(target);
    if (present && !(await isSameDevice(present.source, source))) {
      throw new MountConflict(target, source, present.source);
    }
    const flags = options.length > 0 ? ['-o', options.join(',')] : [];
    if (!present) await this.#run(['mount', '-t', filesystem, ...flags, source, target], { timeoutMs, signal });
  }

  async bind({ source, target, readOnly }: BindRequest, signal: AbortSignal): Promise<void> {
    const present = await this.at(target);
    if (!present) {
      const options = readOnly ? 'bind,ro' : 'bind';
      await this.#run(['mount', '-o', options, source, target], { timeoutMs, signal });
      return;
    }
    if (!(await isSameFile(source, target))) throw new MountConflict(target, source, present.source);
    if (readOnly) await this.protect(target, signal);
    else if (isReadOnly(present) && !isReadOnly(await this.at(source))) throw new MountedReadOnly(target);
  }

  /** Makes this mount read-only; other mounts of the same filesystem stay writable. */
  async protect(target: string, signal: AbortSignal): Promise<void> {
    if (isReadOnly(await this.at(target))) return;
    await this.#run(['mount', '-o', 'remount,bind,ro', target], { timeoutMs, signal });
  }

  /** Removes all stacked mounts. Does nothing if the target is not mounted or does not exist. */
  async unmount(target: string, signal: AbortSignal): Promise<void> {
    while (await this.at(target)) await this.#run(['umount', target], { timeoutMs, signal });
  }
}

/** Creates the mount point of a filesystem, if it does not exist. */
export async function createMountDirectory(path: string): Promise<void> {
  try {
    await mkdir(path, { recursive: true });
  } catch (error) {
    if (codeIn(error) === 'EEXIST' || codeIn(error) === 'ENOTDIR') throw new PathTaken(path, 'a directory', error);
    throw error;
  }
}

/** Creates the mount point of a device, if it does not exist. */
export async function createMountFile(path: string): Promise<void> {
  await createMountDirectory(dirname(path));
  try {
    await writeFile(path, '', { flag: 'ax' });
  } catch (error) {
    if (codeIn(error) !== 'EEXIST') throw error;
    if ((await stat(path)).isDirectory()) throw new PathTaken(path, 'a file', error);
  }
}

/** Removes only an empty directory or an empty file, never data. */
export async function removeMountPoint(path: string): Promise<void> {
  try {
    const found = await stat(path);
    if (found.isDirectory()) await rmdir(path);
    else if (found.size === 0) await rm(path);
    else throw new NotEmpty(path);
  } catch (error) {
    if (codeIn(error) === 'ENOTEMPTY') throw new NotEmpty(path);
    if (codeIn(error) !== 'ENOENT') throw error;
  }
}

function isReadOnly(mount: Mount | undefined): boolean {
  return mount?.options.includes('ro') ?? false;
}

/** mountinfo has real paths only. The target itself is not resolved, as a stat on a broken mount may hang. */
async function withRealParent(target: string): Promise<string | undefined> {
  try {
    return join(await realpath(dirname(target)), basename(target));
  } catch (error) {
    if (codeIn(error) === 'ENOENT') return undefined;
    throw error;
  }
}

async function isSameDevice(one: string, other: string): Promise<boolean> {
  const [a, b] = await Promise.all([find(one), find(other)]);
  return a !== undefined && b !== undefined && a.isBlockDevice() && b.isBlockDevice() && a.rdev === b.rdev;
}

async function isSameFile(one: string, other: string): Promise<boolean> {
  const [a, b] = await Promise.all([find(one), find(other)]);
  return a !== undefined && b !== undefined && a.dev === b.dev && a.ino === b.ino;
}

async function find(path: string): Promise<Stats | undefined> {
  try {
    return await stat(path);
  } catch (error) {
    if (codeIn(error) === 'ENOENT') return undefined;
    throw error;
  }
}

function codeIn(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException).code;
}
