import { spawn } from 'node:child_process';
import { once } from 'node:events';

/**
 * Does something that only one process of this machine may do at a time. The lock is the kernel's: it is free again the
 * moment its holder is gone, however that ended.
 */
export async function withFileLock<T>(path: string, work: () => Promise<T>): Promise<T> {
  // It has the lock when it says so, and keeps it until its input ends: by our word, or by our death.
  const holder = spawn('flock', [path, 'sh', '-c', 'echo locked; exec cat'], { stdio: ['pipe', 'pipe', 'inherit'] });
  const exited = once(holder, 'exit');
  await Promise.race([
    once(holder.stdout, 'data'),
    exited.then(() => Promise.reject(new Error(`cannot lock ${path}`))),
  ]);
  try {
    return await work();
  } finally {
    holder.stdin.end();
    await exited;
  }
}
