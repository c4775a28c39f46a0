import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { cacheDir } from './cache.ts';
import { identityOf, stillRuns } from './process-identity.ts';

const runs = join(cacheDir, 'runs');

/**
 * A directory for the state of one run, on disk because it contains disk images. Remove it at the end; the next run
 * removes the directories of killed ones.
 */
export async function newRunDir(kind: string): Promise<string> {
  await mkdir(runs, { recursive: true });
  for (const name of await readdir(runs))
    if (await isAbandoned(join(runs, name))) await removeUnlessUsed(join(runs, name));
  const dir = await mkdtemp(join(runs, `${kind}-`));
  await writeFile(join(dir, 'owner'), await identityOf(process.pid));
  return dir;
}

/** A directory is abandoned when all of its owners are gone. */
export async function addOwner(dir: string, pid: number): Promise<void> {
  await writeFile(join(dir, `owner-${pid}`), await identityOf(pid));
}

async function isAbandoned(dir: string): Promise<boolean> {
  const files = (await readdir(dir).catch(() => [])).filter((name) => name.startsWith('owner'));
  const owners = await Promise.all(files.map((name) => readFile(join(dir, name), 'utf8').catch(() => '')));
  if (owners.length === 0 || owners.includes('')) return false; // being created or removed at this moment
  return !(await Promise.all(owners.map(stillRuns))).includes(true);
}

/** Processes of a killed run may still be writing to it: then the next run removes it. */
async function removeUnlessUsed(dir: string): Promise<void> {
  try {
    await rm(dir, { recursive: true, force: true });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOTEMPTY') throw error;
  }
}
