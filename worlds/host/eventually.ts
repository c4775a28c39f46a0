import { setTimeout as delay } from 'node:timers/promises';
import { messageOf } from '../../src/base/errors.ts';

/** Ample: what works takes a hundredth of it, also on a machine that has much else to do. */
const defaultTimeoutMs = 180_000;

export interface Patience {
  readonly timeoutMs?: number;
  /** What a person would look at first if it never happens, such as the tails of logs. */
  readonly explain?: () => Promise<string>;
}

/**
 * Waits until `happened` returns something that is not undefined or false, and returns that. For what a test sees from
 * outside; the reason of the last failure and the explanation are in the error if it takes too long.
 */
export async function eventually<T>(
  what: string,
  happened: () => Promise<T | undefined | false>,
  { timeoutMs = defaultTimeoutMs, explain }: Patience = {},
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
  const story = explain ? `\n${await explain()}` : '';
  throw new Error(`waited ${timeoutMs / 1000} s, but it is not so that ${what}${reason}${story}`);
}
