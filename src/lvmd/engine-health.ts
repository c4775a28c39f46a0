import { pause } from '../base/abortable.ts';
import type { Clock } from '../base/clock.ts';
import { codeOf, type ErrorCode, messageOf } from '../base/errors.ts';
import type { KeyedQueue } from '../base/keyed-queue.ts';
import type { Pool } from '../engine/pool.ts';
import { BeingOpened, type Pools } from '../engine/pools.ts';
import { stuckIn } from '../metrics/progress.ts';
import { type Health, HealthCheckResponse_ServingStatus as Status } from '../rpc/gen/grpc/health/v1/health_pb.ts';
import type { Implementation } from '../rpc/server.ts';

/** Longer than LVM waits for its own slowest change, shorter than a prober's patience. */
const patienceMs = 10_000;

/** As long as the longest command of a change may take: a pool that has not answered for longer does not work any more. */
const changeMs = 5 * 60_000;

/** LVM did answer, only there is nothing to serve: a restart would not help, so it is no reason for one. */
const answered: ReadonlySet<ErrorCode> = new Set(['FailedPrecondition', 'NotFound']);

/**
 * Healthy is an engine whose pools still answer: each is asked to read its state anew, LVM by a real command. One that is
 * busy with a change cannot be asked: a restart would only cut that short, so it counts as well for as long as a change may
 * take. A class that is still being opened is named, and counts as well: a restart would begin that again from the start.
 * Whoever asks while others do shares their answer.
 */
export function engineHealth(pools: Pick<Pools, 'all' | 'unavailable'>, clock: Clock): Implementation<typeof Health> {
  let asking: Promise<readonly string[]> | undefined;
  const answeredAtMs = new WeakMap<Pool, number>();
  const startedAtMs = clock.now();
  const isBusy = (pool: Pool) =>
    pool.isChanging() && clock.now() - (answeredAtMs.get(pool) ?? startedAtMs) < changeMs + patienceMs;
  const askPool = async (pool: Pool, signal: AbortSignal, tooLate: Promise<never>): Promise<string> => {
    try {
      await Promise.race([pool.refresh(signal), tooLate]);
    } catch (error) {
      if (error instanceof NoAnswer && isBusy(pool)) return '';
      return complaint(pool.name, error);
    }
    answeredAtMs.set(pool, clock.now());
    return '';
  };
  return {
    async check() {
      asking ??= whatIsWrong(pools, clock, askPool).finally(() => {
        asking = undefined;
      });
      const wrong = await asking;
      const reason = [...wrong, ...notServed(pools, isBeingOpened)].join('; ');
      return { status: wrong.length > 0 ? Status.NOT_SERVING : Status.SERVING, reason };
    },
  };
}

/** One sentence a pool that does not work. */
async function whatIsWrong(
  pools: Pick<Pools, 'all' | 'unavailable'>,
  clock: Clock,
  ask: (pool: Pool, signal: AbortSignal, tooLate: Promise<never>) => Promise<string>,
): Promise<readonly string[]> {
  const abort = new AbortController();
  const { signal } = abort;
  const tooLate = pause(clock, patienceMs, signal).then(() => {
    throw new NoAnswer();
  });
  const asked = pools.all().map((pool) => ask(pool, signal, tooLate));
  try {
    const unavailable = notServed(pools, (error) => !isBeingOpened(error));
    return [...(await Promise.all(asked)).filter((words) => words !== ''), ...unavailable];
  } finally {
    abort.abort();
    tooLate.catch(() => undefined);
  }
}

class NoAnswer extends Error {
  constructor() {
    super(`no answer within ${patienceMs / 1000} s; look for a hanging lvm command or a failing disk`);
  }
}

function complaint(deviceClass: string, error: unknown): string {
  return answered.has(codeOf(error)) ? '' : `device class ${deviceClass}: ${messageOf(error)}`;
}

/** What of an engine in this process does not work now, one sentence each, without asking LVM. */
export function engineProblems(engine: {
  readonly pools: Pick<Pools, 'unavailable'>;
  readonly slowest: KeyedQueue['slowest'];
}): readonly string[] {
  return [...notServed(engine.pools), ...stuckIn({ 'device-classes': engine })];
}

/** One sentence a class that should be served now and is not; LVM may have answered that there is nothing to serve. */
function notServed(
  pools: Pick<Pools, 'unavailable'>,
  isMeant: (error: unknown) => boolean = () => true,
): readonly string[] {
  return [...pools.unavailable()]
    .filter(([, error]) => isMeant(error))
    .map(([name, error]) => complaint(name, error))
    .filter((words) => words !== '');
}

function isBeingOpened(error: unknown): boolean {
  return error instanceof BeingOpened;
}
