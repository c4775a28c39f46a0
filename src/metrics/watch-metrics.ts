import { metrics } from '../api/names.ts';
import type { Clock } from '../base/clock.ts';
import { counter, gauge, type Metric } from './metric.ts';

/** What an informer tells of its health. */
interface Watch {
  readonly synced: boolean;
  readonly size: number;
  readonly lastEventAtMs: number | undefined;
  readonly reconnects: number;
  readonly relists: number;
}

/** Whether we see what the API server has: a watch that has heard nothing for minutes, not even a bookmark, does not. */
export function watchMetrics(watches: Readonly<Record<string, Watch>>, clock: Clock): readonly Metric[] {
  const byWatch = (name: string, help: string, read: (watch: Watch) => number | undefined) => ({
    name,
    help,
    labelNames: ['watch'] as const,
    read: () =>
      Object.entries(watches).flatMap(([watch, its]) => {
        const value = read(its);
        return value === undefined ? [] : [{ labels: { watch }, value }];
      }),
  });
  const ageSeconds = ({ lastEventAtMs }: Watch) =>
    lastEventAtMs === undefined ? undefined : (clock.now() - lastEventAtMs) / 1000;
  return [
    gauge(byWatch(metrics.watchSynced, '1 once the whole state was read, by watch.', ({ synced }) => Number(synced))),
    gauge(byWatch(metrics.watchObjects, 'Objects in memory, by watch.', ({ size }) => size)),
    gauge(byWatch(metrics.watchLastEventAgeSeconds, 'Seconds since the API server last said anything.', ageSeconds)),
    counter(byWatch(metrics.watchReconnects, 'Times that a watch was begun anew.', ({ reconnects }) => reconnects)),
    counter(byWatch(metrics.watchRelists, 'Times that the whole state was read anew.', ({ relists }) => relists)),
  ];
}
