import { readFile, rm } from 'node:fs/promises';
import { MoorageError } from '../../base/errors.ts';
import { CommandFailed, type Run } from '../../base/exec.ts';
import { parseMountInfo } from '../../base/mountinfo.ts';

const timeoutMs = 60_000;

/** One process does it all, so that it usually comes to its end even if we are killed. Its own language, as we read what it says. */
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
  /** Where it is noted that the filesystem is frozen: not on that filesystem itself. */
  readonly frozenNote: string;
  /** What the filesystem may be mounted from. */
  readonly devices: readonly string[];
}

/**
 * Copies a file at one moment and without copying data: both share their blocks until one of them is written. A filesystem
 * that is mounted from one of the devices stands still meanwhile, so that the copy of it is whole.
 */
export async function reflink(run: Run, { source, target, frozenNote, devices }: ReflinkRequest): Promise<void> {
  const mountpoint = await mountpointOf(devices);
  const alone = mountpoint === undefined ? [] : ['flock', frozenNote]; // makes the note, and holds it to the end
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

/** A copy has to be read and written in full. */
export class BlocksNotShared extends MoorageError {
  readonly code = 'Unimplemented';

  constructor(source: string, options: ErrorOptions) {
    super(`the filesystem that holds ${source} cannot share blocks between files; use xfs or btrfs`, options);
  }
}

/** A filesystem can be frozen once only, and is then thawed by whoever did. */
const isFrozenByOthers = /: freeze failed:/;
const cannotShare = /failed to clone .*: (Operation not supported|Invalid)/;

/**
 * Thaws what the note says was frozen and may still be, if whoever froze it was killed with all its processes. One that has
 * outlived its agent holds the note, and is waited for. Without a note nothing is thawed: others freeze filesystems too.
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
