import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { ownIdentity, stillRuns } from '../test/worlds/host/process-identity.ts';

const patienceMs = 5000;

/** Makes sure that only one process at a time works on what the file stands for; one that was just killed is waited for. */
export async function singleRun(lockFile: string): Promise<void> {
  await mkdir(dirname(lockFile), { recursive: true });
  const deadline = performance.now() + patienceMs;
  for (;;) {
    try {
      await writeFile(lockFile, await ownIdentity(), { flag: 'wx' });
      return;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
    const owner = await readFile(lockFile, 'utf8');
    if (!(await stillRuns(owner))) {
      await writeFile(lockFile, await ownIdentity());
      return;
    }
    if (performance.now() > deadline) {
      throw new Error(`another one is at work (process ${owner.split(' ')[0]}); wait for its end, or stop it`);
    }
    await delay(100);
  }
}
