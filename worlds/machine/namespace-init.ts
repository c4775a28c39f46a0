import { readFile } from 'node:fs/promises';

/** The pid, as seen from here, of the first descendant that is the first process of its own PID namespace. */
export async function namespaceInit(pid: number): Promise<number | undefined> {
  for (let candidate: number | undefined = pid; candidate; candidate = await onlyChild(candidate)) {
    const status = await readFile(`/proc/${candidate}/status`, 'utf8').catch(() => '');
    if (/^NSpid:.*\s1$/m.test(status)) return candidate;
  }
  return undefined;
}

async function onlyChild(pid: number): Promise<number | undefined> {
  const children = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8').catch(() => '');
  return Number(children.split(' ')[0]) || undefined;
}
