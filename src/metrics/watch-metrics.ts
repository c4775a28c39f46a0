import { metrics } from '../api/names.ts';
import type { Clock } from '../base/clock.ts';
import { counter, gauge, type Metric } from './metric.ts';

/** What an informer reports about its health. */
interface Watch {
  readonly synced: boolean;
  readonly size: number;
  readonly lastEventAtMs: number | undefined;
  readonly reconnects: number;
  readonly relists: number;
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
    lastEventAtMs === undefined ? undefined : (clock.now() - lastEventAtMs) / 1000;
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
