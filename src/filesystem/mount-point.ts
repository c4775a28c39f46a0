import { mkdir, rm, rmdir, stat, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { MoorageError } from '../base/errors.ts';

/** A place for a filesystem. One that is there already stays. */
export async function makeMountDirectory(path: string): Promise<void> {
  try {
    await mkdir(path, { recursive: true });
  } catch (error) {
    if (codeIn(error) === 'EEXIST' || codeIn(error) === 'ENOTDIR') throw new PathTaken(path, 'a directory', error);
    throw error;
  }
}

/** A place for a device. One that is there already stays. */
export async function makeMountFile(path: string): Promise<void> {
  await makeMountDirectory(dirname(path));
  try {
    await writeFile(path, '', { flag: 'ax' });
  } catch (error) {
    if (codeIn(error) !== 'EEXIST') throw error;
    if ((await stat(path)).isDirectory()) throw new PathTaken(path, 'a file', error);
  }
}

/** Only what was made above, an empty directory or a file with nothing in it: never what somebody has put there. */
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
    super(`${path} must be ${needed}, and something else is there; remove it`, { cause });
  }
}

/** It was unmounted, and what is there lies on the node's own disk. */
export class NotEmpty extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(path: string) {
    super(`nothing is mounted at ${path} any more, but it holds data; look at it, and move it away`);
  }
}
