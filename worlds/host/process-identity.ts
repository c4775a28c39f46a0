import { readFile } from 'node:fs/promises';

/** Identifies a process for good: pids are reused, but not with the same start time. */
export async function identityOf(pid: number): Promise<string> {
  return `${pid} ${await startTime(pid)}`;
}

/** Whether the process with this identity is still alive. */
export async function stillRuns(identity: string): Promise<boolean> {
  const [pid, started] = identity.split(' ');
  return started !== undefined && (await startTime(Number(pid))) === started;
}

async function startTime(pid: number): Promise<string | undefined> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => undefined);
  // The command's name, in parentheses, may contain anything; the fields follow it.
  const [state, ...fields] = stat?.slice(stat.lastIndexOf(')') + 2).split(' ') ?? [];
  return state === 'Z' ? undefined : fields[18];
}
