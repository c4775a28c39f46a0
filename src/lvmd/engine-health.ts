import { pause } from '../base/abortable.ts';
import type { Clock } from '../base/clock.ts';
import { codeOf, type ErrorCode, messageOf } from '../base/errors.ts';
import type { KeyedQueue } from '../base/keyed-queue.ts';
import type { Pool } from '../engine/pool.ts';
import { BeingOpened, type Pools } from '../engine/pools.ts';
import { stuckQueues } from '../metrics/progress.ts';
import { type Health, HealthCheckResponse_ServingStatus as Status } from '../rpc/gen/grpc/health/v1/health_pb.ts';
import type { Implementation } from '../rpc/server.ts';

/** Longer than LVM waits for its own slowest change, shorter than the timeout of a probe. */
const patienceMs = 10_000;

/** The timeout of the longest command of a change: a pool that has not answered for longer is broken. */
const changeMs = 5 * 60_000;

/** LVM answered that there is nothing to serve. A restart would not help. */
const answered: ReadonlySet<ErrorCode> = new Set(['FailedPrecondition', 'NotFound']);

/**
 * An engine is healthy while its pools answer. Each pool reads its state again, LVM by a real command. A pool that is busy
 * with a change counts as healthy for as long as a change may take: a restart would only interrupt it. A class that is still
 * being opened is reported but counts as healthy: a restart would start that over. Concurrent checks share one answer.
 */
export function engineHealth(pools: Pick<Pools, 'all' | 'unavailable'>, clock: Clock): Implementation<typeof Health> {
  let asking: Promise<readonly string[]> | undefined;
  const answeredAtMs = new WeakMap<Pool, number>();
  const startedAtMs = clock.monotonic();
  const isBusy = (pool: Pool) =>
    pool.isChanging() && clock.monotonic() - (answeredAtMs.get(pool) ?? startedAtMs) < changeMs + patienceMs;
  const askPool = async (pool: Pool, signal: AbortSignal, tooLate: Promise<never>): Promise<string> => {
    try {
      await Promise.race([pool.refresh(signal), tooLate]);
    } catch (error) {
      if (error instanceof NoAnswer && isBusy(pool)) return '';
      return complaint(pool.name, error);
    }
    answeredAtMs.set(pool, clock.monotonic());
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

/** One sentence for each pool that does not work. */
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

/** The current problems of an engine in this process, one sentence each, without running LVM. */
export function engineProblems(engine: {
  readonly pools: Pick<Pools, 'unavailable'>;
  readonly slowest: KeyedQueue['slowest'];
}): readonly string[] {
  return [...notServed(engine.pools), ...stuckQueues({ 'device-classes': engine })];
}

/** One sentence for each class that should be served and is not, unless LVM answered that there is nothing to serve. */
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
