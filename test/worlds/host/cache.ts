import { createHash } from 'node:crypto';
import { access, mkdir, mkdtemp, readdir, readFile, rename, rm } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';

/** Where everything is kept that takes long to make: binaries, machine files, images. */
export const cacheDir = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'moorage');

/**
 * The directory `name` of the cache, made by `make` if it is not there. It appears whole or not at all: a run that is
 * killed half-way leaves nothing that a later run would take for complete, and of two runs at once one wins.
 */
export async function cached(name: string, make: (dir: string) => Promise<void>): Promise<string> {
  const wanted = join(cacheDir, name);
  if (await exists(wanted)) return wanted;
  await mkdir(cacheDir, { recursive: true });
  await removeAbandonedDrafts();
  const draft = await mkdtemp(join(cacheDir, `.${process.pid}-`));
  try {
    await make(draft);
    await rename(draft, wanted);
  } catch (error) {
    await rm(draft, { recursive: true, force: true });
    if (await exists(wanted)) return wanted; // another run was quicker
    throw error;
  }
  return wanted;
}

/** A short key that changes whenever one of the files or texts does. */
export async function keyOf(files: readonly string[], texts: readonly string[] = []): Promise<string> {
  const hash = createHash('sha256');
  for (const file of files) hash.update(await readFile(file)).update('\0');
  for (const text of texts) hash.update(text).update('\0');
  return hash.digest('hex').slice(0, 12);
}

/** What makers left that were killed; a draft begins with the pid of its maker. */
async function removeAbandonedDrafts(): Promise<void> {
  for (const name of await readdir(cacheDir)) {
    const maker = /^\.(\d+)-/.exec(name)?.[1];
    if (maker && !(await exists(`/proc/${maker}`))) await rm(join(cacheDir, name), { recursive: true, force: true });
  }
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
