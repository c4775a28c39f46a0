import { writeSync } from 'node:fs';

const standardError = 2;
const retryMs = 10;

/**
 * Returns when all of it is written, so that the last words of a process that crashes are there too. A reader who is slow is
 * waited for; without one, or with a disk that is full, there is nobody left to tell, and the work goes on.
 */
export function writeToStandardError(text: string): void {
  let rest = Buffer.from(text);
  while (rest.length > 0) {
    try {
      rest = rest.subarray(writeSync(standardError, rest));
    } catch (error) {
      if (!isFull(error)) return;
      pause();
    }
  }
}

/** A pipe that does not block, as Node and whoever shares it with us may have made it, cannot take more right now. */
function isFull(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'EAGAIN';
}

/** Node can neither poll a descriptor nor sleep; to wait for a change that nobody makes is the same. */
function pause(): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, retryMs);
}
