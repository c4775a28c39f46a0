import { open, rename } from 'node:fs/promises';
import { dirname } from 'node:path';

/** After a power loss the file holds either the complete old text or the complete new one. */
export async function replaceFile(path: string, text: string, mode = 0o600): Promise<void> {
  const next = `${path}.new`;
  {
    await using file = await open(next, 'w', mode);
    await file.writeFile(text);
    await file.sync();
  }
  await rename(next, path);
  await syncDirectory(dirname(path));
}

/** Created and removed directory entries survive a power loss only after this. */
export async function syncDirectory(path: string): Promise<void> {
  await using directory = await open(path, 'r');
  await directory.sync();
}
