import { readFile, rm } from 'node:fs/promises';
import { MoorageError } from '../../base/errors.ts';
import { CommandFailed, type Run } from '../../base/exec.ts';
import { parseMountInfo } from '../../base/mountinfo.ts';

const timeoutMs = 60_000;

/** A single process, so that it usually finishes even if we are killed. LC_ALL=C, as we match its messages. */
const copyFrozen = `
export LC_ALL=C
[ -z "$3" ] || fsfreeze --freeze "$3" || exit
cp --reflink=always "$1" "$2"
status=$?
[ -z "$3" ] || fsfreeze --unfreeze "$3" || exit
exit $status`;

export interface ReflinkRequest {
  readonly source: string;
  readonly target: string;
  /** The file that records the freeze; not on the frozen filesystem itself. */
  readonly frozenNote: string;
  /** The devices that the filesystem may be mounted from. */
  readonly devices: readonly string[];
}

/**
 * Copies a file atomically and without copying data: both share blocks until one of them is written. A filesystem that is
 * mounted from one of the devices is frozen meanwhile, so that its copy is consistent.
 */
export async function reflink(run: Run, { source, target, frozenNote, devices }: ReflinkRequest): Promise<void> {
  const mountpoint = await mountpointOf(devices);
  const alone = mountpoint === undefined ? [] : ['flock', frozenNote]; // creates the note and locks it until the end
  const [program, ...words] = [...alone, 'sh', '-c', copyFrozen, 'copy', source, target, mountpoint ?? ''];
  try {
    await run([program, ...words], { timeoutMs });
    await rm(frozenNote, { force: true });
  } catch (error) {
    const stderr = error instanceof CommandFailed ? error.stderr : '';
    if (isFrozenByOthers.test(stderr)) await rm(frozenNote, { force: true });
    else if (mountpoint !== undefined) await thaw(run, frozenNote, devices);
    const isRefused = cannotShare.test(stderr);
    if (!isRefused) throw error;
    throw new BlocksNotShared(source, { cause: error });
  }
}

/** The caller has to copy all data instead. */
export class BlocksNotShared extends MoorageError {
  readonly code = 'Unimplemented';

  constructor(source: string, options: ErrorOptions) {
    super(`the filesystem that holds ${source} cannot share blocks between files; use xfs or btrfs`, options);
  }
}

/** Somebody else froze the filesystem, and thaws it. */
const isFrozenByOthers = /: freeze failed:/;
const cannotShare = /failed to clone .*: (Operation not supported|Invalid)/;

/**
 * Thaws what the note records as frozen, in case the process that froze it was killed. One that outlived its agent holds
 * the lock on the note, and is waited for. Without a note nothing is thawed, as others freeze filesystems too.
 */
export async function thaw(run: Run, frozenNote: string, devices: readonly string[]): Promise<void> {
  const mountpoint = await mountpointOf(devices);
  if (mountpoint !== undefined) {
    const script = 'LC_ALL=C exec fsfreeze --unfreeze "$1"';
    await run(['flock', frozenNote, 'sh', '-c', script, 'thaw', mountpoint], { timeoutMs }).catch((error: unknown) => {
      const wasNotFrozen = error instanceof CommandFailed && /Invalid argument/.test(error.stderr);
      if (!wasNotFrozen) throw error;
    });
  }
  await rm(frozenNote, { force: true });
}

async function mountpointOf(devices: readonly string[]): Promise<string | undefined> {
  const mounts = parseMountInfo(await readFile('/proc/self/mountinfo', 'utf8'));
  return mounts.find(({ source }) => devices.includes(source))?.target;
}
