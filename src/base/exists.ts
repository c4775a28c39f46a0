import { stat } from 'node:fs/promises';

/** Whether there is a file or directory, or a link to one. That we may not look is an error, not an answer. */
export async function exists(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
    throw error;
  }
}
