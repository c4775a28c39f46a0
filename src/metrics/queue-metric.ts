import { metrics } from '../api/names.ts';
import type { KeyedQueue } from '../base/keyed-queue.ts';
import { gauge, type Metric } from './metric.ts';

/** Work that waits, is done, or failed and is tried again: a queue that only grows is a process in trouble. */
export function queueMetric(queues: Readonly<Record<string, Pick<KeyedQueue, 'depth'>>>): Metric {
  return gauge({
    name: metrics.queueKeys,
    help: 'Objects in a queue of work, by queue and state: waiting, running, failing.',
    labelNames: ['queue', 'state'],
    read: () =>
      Object.entries(queues).flatMap(([queue, { depth }]) =>
        Object.entries(depth).map(([state, value]) => ({ labels: { queue, state }, value })),
      ),
  });
}
