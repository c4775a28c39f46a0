import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { cacheDir } from './cache.ts';
import { ownIdentity, stillRuns } from './process-identity.ts';

const runs = join(cacheDir, 'runs');

/**
 * A directory for the state of one run, on disk because it holds disk images. It should be removed at the end; what a
 * killed run left behind is removed by the next one.
 */
export async function newRunDir(kind: string): Promise<string> {
  await mkdir(runs, { recursive: true });
  await removeAbandoned();
  const dir = await mkdtemp(join(runs, `${kind}-`));
  await writeFile(join(dir, 'owner'), await ownIdentity());
  return dir;
}

async function removeAbandoned(): Promise<void> {
  for (const name of await readdir(runs)) {
    const dir = join(runs, name);
    const owner = await readFile(join(dir, 'owner'), 'utf8').catch(() => undefined);
    if (owner === undefined) continue; // being made at this moment
    if (!(await stillRuns(owner))) await rm(dir, { recursive: true, force: true });
  }
}
