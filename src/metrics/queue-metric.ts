import { metrics } from '../api/names.ts';
import type { KeyedQueue } from '../base/keyed-queue.ts';
import { gauge, type Metric } from './metric.ts';

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
