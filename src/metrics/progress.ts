import { metrics } from '../api/names.ts';
import type { Clock } from '../base/clock.ts';
import type { KeyedQueue } from '../base/keyed-queue.ts';
import { counter, gauge, type Metric } from './metric.ts';

/** What an informer reports about its health. */
interface Watch {
  readonly synced: boolean;
  readonly size: number;
  readonly lastEventAtMs: number | undefined;
  readonly reconnects: number;
  readonly relists: number;
}

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

/** One sentence per watch that does not see the state of the API server. */
export function silentWatches(
  watches: Readonly<Record<string, Pick<Watch, 'synced' | 'lastEventAtMs'>>>,
  clock: Clock,
): readonly string[] {
  return Object.entries(watches).flatMap(([name, { synced, lastEventAtMs }]) => {
    if (!synced) return [`watch ${name}: nothing has been read from the API server yet (see the log)`];
    const forMs = clock.monotonic() - (lastEventAtMs ?? clock.monotonic());
    return forMs > silentMs ? [`watch ${name}: no event from the API server for ${minutes(forMs)}`] : [];
  });
}

function minutes(ms: number): string {
  return `${Math.floor(ms / 60_000)} min`;
}

/** Work that waits, runs, or failed and is retried: a queue that only grows is a problem. */
export function queueMetric(queues: Readonly<Record<string, Pick<KeyedQueue, 'depth'>>>): Metric {
  return gauge({
    name: metrics.queueKeys,
    help: 'Objects in a work queue, by queue and state: waiting, running, failing.',
    labelNames: ['queue', 'state'],
    read: () =>
      Object.entries(queues).flatMap(([queue, { depth }]) =>
        Object.entries(depth).map(([state, value]) => ({ labels: { queue, state }, value })),
      ),
  });
}

/** Whether we see the state of the API server: a watch without even a bookmark for minutes does not. */
export function watchMetrics(watches: Readonly<Record<string, Watch>>, clock: Clock): readonly Metric[] {
  const byWatch = (name: string, help: string, read: (watch: Watch) => number | undefined) => ({
    name,
    help,
    labelNames: ['watch'] as const,
    read: () =>
      Object.entries(watches).flatMap(([watch, informer]) => {
        const value = read(informer);
        return value === undefined ? [] : [{ labels: { watch }, value }];
      }),
  });
  const ageSeconds = ({ lastEventAtMs }: Watch) =>
    lastEventAtMs === undefined ? undefined : (clock.monotonic() - lastEventAtMs) / 1000;
  return [
    gauge(
      byWatch(metrics.watchSynced, '1 once the complete state was read, by watch.', ({ synced }) => Number(synced)),
    ),
    gauge(byWatch(metrics.watchObjects, 'Objects in memory, by watch.', ({ size }) => size)),
    gauge(
      byWatch(
        metrics.watchLastEventAgeSeconds,
        'Seconds since the last event from the API server, by watch.',
        ageSeconds,
      ),
    ),
    counter(byWatch(metrics.watchReconnects, 'Times that a watch was restarted.', ({ reconnects }) => reconnects)),
    counter(byWatch(metrics.watchRelists, 'Times that the complete state was read again.', ({ relists }) => relists)),
  ];
}
