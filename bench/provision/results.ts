import { type Statistics, statisticsOf } from '../statistics.ts';
import { table } from '../table.ts';
import type { ApiRequests } from './api-requests.ts';
import type { MemoryAfterLoad } from './memory.ts';
import { type Operation, operations, type Sample } from './rounds.ts';
import { type SideName, sideNames } from './side.ts';

type BySide<T> = Readonly<Record<SideName, T>>;

export interface ProvisionResults {
  /** Moorage's median divided by TopoLVM's; for memory, the values of both. */
  readonly ratios: Readonly<Record<string, number>>;
  readonly figures: ProvisionMeasurements;
}

interface ProvisionMeasurements {
  readonly milliseconds: Readonly<Partial<Record<Operation, BySide<Statistics>>>>;
  /** Processes and threads that the node started for a call: the median. */
  readonly started: Readonly<Partial<Record<Operation, BySide<number>>>>;
  /** API requests for the creation of a volume: the median. */
  readonly api_requests_per_volume: BySide<number>;
  /** Of Moorage. */
  readonly api_writes_per_volume: number;
  /** Processes that Moorage starts for a stats call, among 200 other volumes. */
  readonly stats_forks: number;
  readonly memory: BySide<MemoryAfterLoad>;
}

export function resultsOf(
  samples: readonly Sample[],
  api: BySide<readonly ApiRequests[]>,
  memory: BySide<MemoryAfterLoad>,
): ProvisionResults {
  const of = (operation: Operation, side: SideName) =>
    samples.filter((sample) => sample.operation === operation && sample.side === side);
  const bySide = <T>(measure: (side: SideName) => T): BySide<T> => ({
    topolvm: measure('topolvm'),
    moorage: measure('moorage'),
  });
  const median = (values: readonly number[]) => statisticsOf(values).median;
  const milliseconds = Object.fromEntries(
    operations.map((operation) => [
      operation,
      bySide((side) => statisticsOf(of(operation, side).map(({ elapsedMs }) => elapsedMs))),
    ]),
  ) as Record<Operation, BySide<Statistics>>;
  const counted = operations.filter((operation) =>
    of(operation, 'moorage').some(({ started }) => started !== undefined),
  );
  const started = Object.fromEntries(
    counted.map((operation) => [
      operation,
      bySide((side) => median(of(operation, side).map(({ started }) => started ?? Number.NaN))),
    ]),
  ) as ProvisionMeasurements['started'];
  const ratio = (operation: Operation) =>
    part(milliseconds[operation].moorage.median, milliseconds[operation].topolvm.median);
  return {
    ratios: {
      create_vs_topolvm: ratio('create'),
      burst50_vs_topolvm: ratio('create 50'),
      delete_vs_topolvm: ratio('delete'),
      expand_vs_topolvm: ratio('expand'),
      publish_vs_topolvm: ratio('first publish'),
      republish_vs_topolvm: ratio('re-publish'),
      publish200_vs_topolvm: ratio('first publish, 200 others'),
      republish200_vs_topolvm: ratio('re-publish, 200 others'),
      stats_vs_topolvm: ratio('stats'),
      stats200_vs_topolvm: ratio('stats, 200 others'),
      node_memory_vs_topolvm: part(memory.moorage.atRest.pssMib, memory.topolvm.atRest.pssMib),
      node_memory_busy_vs_topolvm: part(memory.moorage.busy.pssMib, memory.topolvm.busy.pssMib),
      node_rss_vs_topolvm: part(memory.moorage.atRest.rssMib, memory.topolvm.atRest.rssMib),
    },
    figures: {
      milliseconds,
      started,
      api_requests_per_volume: bySide((side) => median(api[side].map(({ requests }) => requests))),
      api_writes_per_volume: median(api.moorage.map(({ writes }) => writes)),
      stats_forks: started['stats, 200 others']?.moorage ?? Number.NaN,
      memory,
    },
  };
}

/** The results as tables. */
export function provisionTables({ ratios, figures: measurements }: ProvisionResults): string {
  const { milliseconds, started, memory } = measurements;
  const words = ({ min, median, p99, samples }: Statistics) => `${min} / ${median} / ${p99} (${samples})`;
  const rows = operations.map((operation) => {
    const statistics = milliseconds[operation];
    const counts = started[operation];
    return [
      operation,
      ...sideNames.map((side) => (statistics ? words(statistics[side]) : '-')),
      counts ? sideNames.map((side) => counts[side]).join(' / ') : '',
    ];
  });
  return [
    'Milliseconds: min / median / p99 (samples). The last column: processes and threads started, topolvm / moorage.',
    table([['', ...sideNames, 'started'], ...rows]),
    'Moorage as a part of TopoLVM (medians):',
    table(Object.entries(ratios).map(([name, value]) => [name, value.toFixed(3)])),
    table(
      sideNames.map((side) => [
        side,
        `${measurements.api_requests_per_volume[side]} API requests a volume`,
        `a node holds ${memory[side].busy.pssMib} MiB while busy, ${memory[side].atRest.pssMib} at rest (PSS)`,
      ]),
    ),
    `Moorage: ${measurements.api_writes_per_volume} API writes a volume, ${measurements.stats_forks} processes for a volume's usage`,
  ].join('\n\n');
}

function part(ours: number, theirs: number): number {
  return Number((ours / theirs).toPrecision(3));
}
