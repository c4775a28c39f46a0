import { Histogram } from 'prom-client';
import { metrics } from '../api/names.ts';
import type { LvmCounts } from '../engine/lvm/lvm.ts';
import type { DoneOperation } from '../engine/observed-pool.ts';
import { counter, gauge, latencyBuckets, type Metric } from './metric.ts';

/** Durations of the storage engine's changes, including the time they wait for others. */
export function operationLatency(): { readonly metric: Metric; readonly observe: (done: DoneOperation) => void } {
  const metric = new Histogram({
    name: metrics.poolOperationSeconds,
    help: 'Duration of changes of a pool, by device class, operation and code.',
    labelNames: ['device_class', 'operation', 'code'],
    buckets: latencyBuckets,
    registers: [],
  });
  return {
    metric,
    observe: ({ deviceClass, operation, code, durationMs }) =>
      metric.observe({ device_class: deviceClass, operation, code }, durationMs / 1000),
  };
}

/** How LVM commands run: a node whose commands do not go through a shell is slow and needs attention. */
export function lvmMetrics(counts: () => LvmCounts): readonly Metric[] {
  return [
    counter({
      name: metrics.lvmCommands,
      help: 'LVM commands by how they were run: shell, or exec, which starts a process for each.',
      labelNames: ['way'],
      read: () => Object.entries(counts().commands).map(([way, value]) => ({ labels: { way }, value })),
    }),
    counter({
      name: metrics.lvmShellRestarts,
      help: 'LVM shells that misbehaved and were replaced.',
      read: () => [{ value: counts().shellRestarts }],
    }),
    counter({
      name: metrics.lvmShellFailures,
      help: 'Failed attempts to start an LVM shell.',
      read: () => [{ value: counts().shellFailures }],
    }),
  ];
}

/** Shows monitoring that a configuration change was rejected and the previous configuration is still in use. */
export function configGauge(problem: () => unknown): Metric {
  return gauge({
    name: metrics.configAccepted,
    help: '1 if the current configuration file is in use, 0 if it was rejected and the previous one is in use.',
    read: () => [{ value: problem() === undefined ? 1 : 0 }],
  });
}
