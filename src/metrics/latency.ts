import { Histogram } from 'prom-client';
import { metrics } from '../api/names.ts';
import type { DoneOperation } from '../engine/observed-pool.ts';
import type { AnsweredCall } from '../rpc/server.ts';
import type { Metric } from './metric.ts';

/** Few, as each costs one number per label set: an answer from memory, one LVM command, a mkfs, an erasure. */
const buckets = [0.005, 0.02, 0.1, 0.5, 2, 10, 60];

/** Durations of gRPC calls, by code. */
export function callLatency(): { readonly metric: Metric; readonly observe: (call: AnsweredCall) => void } {
  const metric = new Histogram({
    name: metrics.callSeconds,
    help: 'Duration of gRPC calls, by service, method and code.',
    labelNames: ['service', 'method', 'code'],
    buckets,
    registers: [],
  });
  return {
    metric,
    observe: ({ service, method, code, durationMs }) => metric.observe({ service, method, code }, durationMs / 1000),
  };
}

/** Durations of the storage engine's changes, including the time they wait for others. */
export function operationLatency(): { readonly metric: Metric; readonly observe: (done: DoneOperation) => void } {
  const metric = new Histogram({
    name: metrics.poolOperationSeconds,
    help: 'Duration of changes of a pool, by device class, operation and code.',
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
