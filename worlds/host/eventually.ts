import { setTimeout as delay } from 'node:timers/promises';
import { messageOf } from '../../src/base/errors.ts';

/** Ample: successful waits take a hundredth of it, even on a busy machine. */
const defaultTimeoutMs = 180_000;

export interface WaitOptions {
  readonly timeoutMs?: number;
  /** What a developer would look at first if it never happens, such as the tails of logs. */
  readonly explain?: () => Promise<string>;
}

/**
 * Waits until `happened` returns something other than undefined or false, and returns it. For what a test observes from
 * outside. On a timeout, the error contains the last failure and the explanation.
 */
export async function eventually<T>(
  what: string,
  happened: () => Promise<T | undefined | false>,
  { timeoutMs = defaultTimeoutMs, explain }: WaitOptions = {},
): Promise<T> {
  const deadline = performance.now() + timeoutMs;
  let failure: unknown;
  for (;;) {
    try {
      const result = await happened();
      if (result !== undefined && result !== false) return result;
      failure = undefined;
    } catch (error) {
      failure = error;
    }
    if (performance.now() > deadline) break;
    await delay(100);
  }
  const reason = failure === undefined ? '' : `: ${messageOf(failure)}`;
  const explanation = explain ? `\n${await explain()}` : '';
  throw new Error(`timed out after ${timeoutMs / 1000} s waiting until ${what}${reason}${explanation}`);
}
