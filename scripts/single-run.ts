import { link, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { identityOf, stillRuns } from '../worlds/host/process-identity.ts';

const patienceMs = 5000;

/** Takes a lock file, so that only one process works at a time; waits for one that was just killed. */
export async function singleRun(lockFile: string): Promise<void> {
  await mkdir(dirname(lockFile), { recursive: true });
  const own = `${lockFile}.${process.pid}`;
  await writeFile(own, await identityOf(process.pid));
  const deadline = performance.now() + patienceMs;
  for (;;) {
    try {
      await link(own, lockFile); // appears with its content, or not at all
      return await rm(own);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
    const owner = await readFile(lockFile, 'utf8').catch(() => '');
    if (!(await stillRuns(owner))) {
      await rm(lockFile, { force: true });
      continue;
    }
    if (performance.now() > deadline) {
      await rm(own);
      throw new Error(`another run is in progress (process ${owner.split(' ')[0]}); wait until it ends, or stop it`);
    }
    await delay(100);
  }
}
