import type { Statistics } from '../statistics.ts';
import { table } from '../table.ts';
import type { SideName } from './side.ts';

export interface CapacityResults {
  readonly sides: readonly SideResults[];
}

/** Milliseconds are undefined if something did not happen within a minute. */
export interface SideResults {
  readonly side: SideName;
  readonly nodes: number;
  readonly newClass: {
    readonly firstMs: number | undefined;
    readonly allMs: number | undefined;
    /** The number of published nodes when all were published, or after a minute. */
    readonly objects: number;
  };
  readonly idleCpuPercent: number;
  /** From the Node's annotation to the published object. */
  readonly change: Statistics | undefined;
  readonly everyNode: {
    /** How long the changes themselves took. */
    readonly patchedMs: number;
    /** How much later the last one was published. */
    readonly settledMs: number | undefined;
    readonly writesPerSecond: number;
  };
}

/** The results as tables. */
export function capacityTables({ sides }: CapacityResults): string {
  const ms = (value: number | undefined) => (value === undefined ? 'over 60 s' : `${Math.round(value)} ms`);
  return [
    'How soon the scheduler can know of room:',
    table([
      [
        'publisher',
        'nodes',
        'new class: first node',
        'all nodes',
        'one change',
        'all nodes change',
        'writes/s',
        'idle CPU',
      ],
      ...sides.map(({ side, nodes, newClass, change, everyNode, idleCpuPercent }) => [
        side,
        String(nodes),
        ms(newClass.firstMs),
        newClass.allMs === undefined ? `${newClass.objects} of ${nodes} in 60 s` : ms(newClass.allMs),
        change ? `${ms(change.median)} (p99 ${ms(change.p99)})` : 'not measured',
        ms(everyNode.settledMs),
        everyNode.writesPerSecond.toFixed(0),
        `${idleCpuPercent.toFixed(1)} %`,
      ]),
    ]),
  ].join('\n\n');
}
