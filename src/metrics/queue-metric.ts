import { Gauge } from 'prom-client';
import type { KeyedQueue } from '../base/keyed-queue.ts';
import { metrics } from '../names.ts';

/** Work that waits, is done, or failed and is tried again: a queue that only grows is a process in trouble. */
export function queueMetric(queues: Readonly<Record<string, Pick<KeyedQueue, 'depth'>>>): Gauge {
  return new Gauge({
    name: metrics.queueKeys,
    help: 'Objects in a queue of work, by queue and state: waiting, running, failing.',
    labelNames: ['queue', 'state'],
    registers: [],
    collect() {
      for (const [queue, { depth }] of Object.entries(queues)) {
        for (const [state, count] of Object.entries(depth)) this.set({ queue, state }, count);
      }
    },
  });
}
