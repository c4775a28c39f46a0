import { Counter, type Metric } from 'prom-client';
import { metrics } from '../names.ts';
import type { LvmFigures } from '../storage/lvm/lvm-figures.ts';

/** What LVM had to do, and how well: a node whose commands do not go through a shell is slow, and should be looked at. */
export function lvmMetrics(figures: () => LvmFigures): readonly Metric[] {
  return [
    new Counter({
      name: metrics.lvmCommands,
      help: 'LVM commands by the way they went: shell, or exec, which costs a process each.',
      labelNames: ['way'],
      registers: [],
      collect() {
        this.reset();
        for (const [way, count] of Object.entries(figures().commands)) this.inc({ way }, count);
      },
    }),
    counter(metrics.lvmShellRestarts, 'LVM shells that misbehaved and were replaced.', () => figures().shellRestarts),
    counter(metrics.lvmShellFailures, 'Times that no LVM shell could be started.', () => figures().shellFailures),
  ];
}

function counter(name: string, help: string, read: () => number): Counter {
  return new Counter({
    name,
    help,
    registers: [],
    collect() {
      this.reset();
      this.inc(read());
    },
  });
}
