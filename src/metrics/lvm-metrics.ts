import { metrics } from '../api/names.ts';
import type { LvmCounts } from '../engine/lvm/lvm.ts';
import { counter, type Metric } from './metric.ts';

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
