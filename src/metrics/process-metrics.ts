import { Histogram } from 'prom-client';
import { metrics } from '../api/names.ts';
import type { AnsweredCall } from '../rpc/server.ts';
import { counter, gauge, latencyBuckets, type Metric } from './metric.ts';

/** Resource usage of the process, under the standard names of Prometheus clients. */
export function processMetrics(): readonly Metric[] {
  return [
    gauge({
      name: 'process_resident_memory_bytes',
      help: 'Resident memory size in bytes.',
      read: () => [{ value: process.memoryUsage.rss() }],
    }),
    counter({
      name: 'process_cpu_seconds_total',
      help: 'Total user and system CPU time spent in seconds.',
      read() {
        const { user, system } = process.cpuUsage();
        return [{ value: (user + system) / 1e6 }];
      },
    }),
    gauge({
      name: 'process_start_time_seconds',
      help: 'Start time of the process since unix epoch in seconds.',
      read: () => [{ value: Math.round(Date.now() / 1000 - process.uptime()) }],
    }),
  ];
}

/** Durations of gRPC calls, by code. */
export function callLatency(): { readonly metric: Metric; readonly observe: (call: AnsweredCall) => void } {
  const metric = new Histogram({
    name: metrics.callSeconds,
    help: 'Duration of gRPC calls, by service, method and code.',
    labelNames: ['service', 'method', 'code'],
    buckets: latencyBuckets,
    registers: [],
  });
  return {
    metric,
    observe: ({ service, method, code, durationMs }) => metric.observe({ service, method, code }, durationMs / 1000),
  };
}
