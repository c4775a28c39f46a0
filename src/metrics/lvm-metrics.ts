import { metrics } from '../api/names.ts';
import type { LvmFigures } from '../engine/lvm/lvm-figures.ts';
import { counter, type Metric } from './metric.ts';

/** What LVM had to do, and how well: a node whose commands do not go through a shell is slow, and should be looked at. */
export function lvmMetrics(figures: () => LvmFigures): readonly Metric[] {
  return [
    counter({
      name: metrics.lvmCommands,
      help: 'LVM commands by the way they went: shell, or exec, which costs a process each.',
      labelNames: ['way'],
      read: () => Object.entries(figures().commands).map(([way, value]) => ({ labels: { way }, value })),
    }),
    counter({
      name: metrics.lvmShellRestarts,
      help: 'LVM shells that misbehaved and were replaced.',
      read: () => [{ value: figures().shellRestarts }],
    }),
    counter({
      name: metrics.lvmShellFailures,
      help: 'Times that no LVM shell could be started.',
      read: () => [{ value: figures().shellFailures }],
    }),
  ];
}
