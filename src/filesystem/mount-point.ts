import { mkdir, rm, rmdir, stat, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { MoorageError } from '../base/errors.ts';

/** Creates the mount point of a filesystem, if it does not exist. */
export async function makeMountDirectory(path: string): Promise<void> {
  try {
    await mkdir(path, { recursive: true });
  } catch (error) {
    if (codeIn(error) === 'EEXIST' || codeIn(error) === 'ENOTDIR') throw new PathTaken(path, 'a directory', error);
    throw error;
  }
}

/** Creates the mount point of a device, if it does not exist. */
export async function makeMountFile(path: string): Promise<void> {
  await makeMountDirectory(dirname(path));
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

function codeIn(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException).code;
}

export class PathTaken extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(path: string, needed: string, cause: unknown) {
    super(`${path} must be ${needed}, but something else is there; remove it`, { cause });
  }
}

/** The volume is unmounted, and the data is on the node's own disk. */
export class NotEmpty extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(path: string) {
    super(`${path} is no longer a mount point but contains data; inspect it and move it away`);
  }
}
