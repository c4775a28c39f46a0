import { readFileSync } from 'node:fs';

/** Whether a process is alive. A zombie is dead: only its parent has not reaped it yet. */
export function isAlive(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}
