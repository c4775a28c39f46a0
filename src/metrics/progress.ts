import type { Clock } from '../base/clock.ts';
import type { KeyedQueue } from '../base/keyed-queue.ts';

/** A step is a few requests, each with a deadline, of five minutes at most: what takes longer than this does not move. */
const stuckMs = 15 * 60_000;
/** The API server says something every minute, and a watch that hears nothing is started again. */
const silentMs = 5 * 60_000;

/** One sentence a queue with a key that does not move. What its key waits for aside is not counted. */
export function stuckIn(queues: Readonly<Record<string, Pick<KeyedQueue, 'slowest'>>>): readonly string[] {
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

/** One sentence a watch that does not see what the API server has. */
export function blindIn(watches: Readonly<Record<string, Watch>>, clock: Clock): readonly string[] {
  return Object.entries(watches).flatMap(([name, { synced, lastEventAtMs }]) => {
    if (!synced) return [`watch ${name}: nothing was read from the API server yet, see the log for why`];
    const forMs = clock.now() - (lastEventAtMs ?? clock.now());
    return forMs > silentMs ? [`watch ${name}: the API server has said nothing for ${minutes(forMs)}`] : [];
  });
}

function minutes(ms: number): string {
  return `${Math.floor(ms / 60_000)} min`;
}
