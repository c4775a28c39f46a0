import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { cacheDir } from './cache.ts';

const runs = join(cacheDir, 'runs');

/**
 * A directory for the state of one run, on disk because it holds disk images. It should be removed at the end; what a
 * killed run left behind is removed by the next one.
 */
export async function newRunDir(kind: string): Promise<string> {
  await mkdir(runs, { recursive: true });
  await removeAbandoned();
  const dir = await mkdtemp(join(runs, `${kind}-`));
  await writeFile(join(dir, 'owner'), `${process.pid} ${await startTime(process.pid)}`);
  return dir;
}

async function removeAbandoned(): Promise<void> {
  for (const name of await readdir(runs)) {
    const dir = join(runs, name);
    const owner = await readFile(join(dir, 'owner'), 'utf8').catch(() => undefined);
    if (owner === undefined) continue; // being made at this moment
    const [pid = '', started = ''] = owner.split(' ');
    if ((await startTime(Number(pid))) !== started) await rm(dir, { recursive: true, force: true });
  }
}

/** With the pid, it names a process for good: pids are used again, but not with the same start time. */
async function startTime(pid: number): Promise<string | undefined> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => undefined);
  return stat?.slice(stat.lastIndexOf(')') + 2).split(' ')[19];
}
