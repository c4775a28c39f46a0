import { Histogram } from 'prom-client';
import { metrics } from '../api/names.ts';
import type { DoneOperation } from '../engine/observed-pool.ts';
import type { AnsweredCall } from '../rpc/server.ts';
import type { Metric } from './metric.ts';

/** Few, as each costs a number a label: what comes from memory, one LVM command, a mkfs, an erasure. */
const buckets = [0.005, 0.02, 0.1, 0.5, 2, 10, 60];

/** How long calls took, and how they ended. */
export function callLatency(): { readonly metric: Metric; readonly observe: (call: AnsweredCall) => void } {
  const metric = new Histogram({
    name: metrics.callSeconds,
    help: 'How long gRPC calls took, by service, method and code.',
    labelNames: ['service', 'method', 'code'],
    buckets,
    registers: [],
  });
  return {
    metric,
    observe: ({ service, method, code, durationMs }) => metric.observe({ service, method, code }, durationMs / 1000),
  };
}

/** How long the storage engine took for each change, waiting for others included. */
export function operationLatency(): { readonly metric: Metric; readonly observe: (done: DoneOperation) => void } {
  const metric = new Histogram({
    name: metrics.poolOperationSeconds,
    help: 'How long changes of a pool took, by device class, operation and code.',
    labelNames: ['device_class', 'operation', 'code'],
    buckets,
    registers: [],
  });
  return {
    metric,
    observe: ({ deviceClass, operation, code, durationMs }) =>
      metric.observe({ device_class: deviceClass, operation, code }, durationMs / 1000),
  };
}
