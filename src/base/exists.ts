import { stat } from 'node:fs/promises';

/** Whether a file or directory, or a link to one, exists. Missing permission is an error, not "no". */
export async function exists(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
    throw error;
  }
}
