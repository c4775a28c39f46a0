import { open, rename } from 'node:fs/promises';
import { dirname } from 'node:path';

/** After a power loss the file holds either all of the old text or all of the new. */
export async function replaceFile(path: string, text: string): Promise<void> {
  const next = `${path}.new`;
  {
    await using file = await open(next, 'w', 0o600);
    await file.writeFile(text);
    await file.sync();
  }
  await rename(next, path);
  await syncDirectory(dirname(path));
}

/** Names that were made or removed in a directory outlive a power loss only after this. */
export async function syncDirectory(path: string): Promise<void> {
  await using directory = await open(path, 'r');
  await directory.sync();
}
