import type { Clock } from '../base/clock.ts';
import type { KeyedQueue } from '../base/keyed-queue.ts';

/** A step is a few requests, each with a deadline of at most five minutes: anything that takes longer is stuck. */
const stuckMs = 15 * 60_000;
/** The API server sends something every minute, and a silent watch is started again. */
const silentMs = 5 * 60_000;

/** One sentence per queue with a stuck key. Time that a key waits aside is not counted. */
export function stuckQueues(queues: Readonly<Record<string, Pick<KeyedQueue, 'slowest'>>>): readonly string[] {
  return Object.entries(queues).flatMap(([name, { slowest }]) =>
    slowest && slowest.forMs > stuckMs
      ? [`queue ${name}: ${slowest.key} has made no progress for ${minutes(slowest.forMs)}`]
      : [],
  );
}

/** What an informer reports. */
interface Watch {
  readonly synced: boolean;
  readonly lastEventAtMs: number | undefined;
}

/** One sentence per watch that does not see the state of the API server. */
export function silentWatches(watches: Readonly<Record<string, Watch>>, clock: Clock): readonly string[] {
  return Object.entries(watches).flatMap(([name, { synced, lastEventAtMs }]) => {
    if (!synced) return [`watch ${name}: nothing has been read from the API server yet (see the log)`];
    const forMs = clock.now() - (lastEventAtMs ?? clock.now());
    return forMs > silentMs ? [`watch ${name}: no event from the API server for ${minutes(forMs)}`] : [];
  });
}

function minutes(ms: number): string {
  return `${Math.floor(ms / 60_000)} min`;
}
