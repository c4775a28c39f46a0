import { readFile } from 'node:fs/promises';
import { CommandFailed, CommandTimedOut, type Run } from '../../base/exec.ts';
import { SnapshotUnsupported } from '../errors.ts';
import { parseMountInfo } from '../mountinfo.ts';

const timeoutMs = 60_000;

/**
 * One process does it all, so that it comes to its end even if we are killed meanwhile: nobody else would thaw what it
 * has frozen. Its own language, as we read what it says.
 */
const copyFrozen = `
export LC_ALL=C
[ -z "$3" ] || fsfreeze --freeze "$3" || exit
cp --reflink=always "$1" "$2"
status=$?
[ -z "$3" ] || fsfreeze --unfreeze "$3"
exit $status`;

/**
 * Copies a file at one moment and without copying data: both share their blocks until one of them is written.
 * A filesystem that is mounted from one of the devices stands still meanwhile, so that the copy of it is whole.
 */
export async function reflink(run: Run, source: string, target: string, devices: readonly string[]): Promise<void> {
  const mounts = parseMountInfo(await readFile('/proc/self/mountinfo', 'utf8'));
  const mountpoint = mounts.find((mount) => devices.includes(mount.source))?.target ?? '';
  try {
    await run(['sh', '-c', copyFrozen, 'copy', source, target, mountpoint], { timeoutMs });
  } catch (error) {
    if (error instanceof CommandTimedOut && mountpoint)
      await run(['fsfreeze', '--unfreeze', mountpoint], { timeoutMs });
    if (
      !(error instanceof CommandFailed) ||
      !/failed to clone .*: (Operation not supported|Invalid)/.test(error.stderr)
    )
      throw error;
    throw new SnapshotUnsupported(
      `the filesystem that holds ${source} cannot share blocks between files, so there are no snapshots or clones; ` +
        'use a directory on xfs or btrfs, or a thin device class',
      { cause: error },
    );
  }
}
