import { readFile } from 'node:fs/promises';

/** Names a process for good: pids are used again, but not with the same start time. */
export async function identityOf(pid: number): Promise<string> {
  return `${pid} ${await startTime(pid)}`;
}

/** Whether the process that called itself so is still there. */
export async function stillRuns(identity: string): Promise<boolean> {
  const [pid, started] = identity.split(' ');
  return started !== undefined && (await startTime(Number(pid))) === started;
}

async function startTime(pid: number): Promise<string | undefined> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => undefined);
  // The command's name, in brackets, may hold anything; what follows it is fields.
  const [state, ...fields] = stat?.slice(stat.lastIndexOf(')') + 2).split(' ') ?? [];
  return state === 'Z' ? undefined : fields[18];
}
