import { readFileSync } from 'node:fs';

/** Whether anything is left of a process. A zombie is dead: only its parent has not looked yet. */
export function isAlive(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}
