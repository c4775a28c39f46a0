import { type Figure, figureOf } from '../figure.ts';
import { table } from '../table.ts';
import type { ApiRequests } from './api-requests.ts';
import type { MemoryAfterLoad } from './memory.ts';
import { type Operation, operations, type Sample } from './rounds.ts';
import { type SideName, sideNames } from './side.ts';

type BySide<T> = Readonly<Record<SideName, T>>;

export interface ProvisionResults {
  /** Moorage's median divided by TopoLVM's; for memory, the values of both. */
  readonly ratios: Readonly<Record<string, number>>;
  readonly figures: ProvisionFigures;
}

interface ProvisionFigures {
  readonly milliseconds: Readonly<Partial<Record<Operation, BySide<Figure>>>>;
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
  const bySide = <T>(make: (side: SideName) => T): BySide<T> => ({
    topolvm: make('topolvm'),
    moorage: make('moorage'),
  });
  const median = (values: readonly number[]) => figureOf(values).median;
  const milliseconds = Object.fromEntries(
    operations.map((operation) => [
      operation,
      bySide((side) => figureOf(of(operation, side).map(({ elapsedMs }) => elapsedMs))),
    ]),
  ) as Record<Operation, BySide<Figure>>;
  const counted = operations.filter((operation) =>
    of(operation, 'moorage').some(({ started }) => started !== undefined),
  );
  const started = Object.fromEntries(
    counted.map((operation) => [
      operation,
      bySide((side) => median(of(operation, side).map(({ started }) => started ?? Number.NaN))),
    ]),
  ) as ProvisionFigures['started'];
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
export function provisionTables({ ratios, figures }: ProvisionResults): string {
  const { milliseconds, started, memory } = figures;
  const words = ({ min, median, p99, samples }: Figure) => `${min} / ${median} / ${p99} (${samples})`;
  const rows = operations.map((operation) => {
    const figure = milliseconds[operation];
    const counts = started[operation];
    return [
      operation,
      ...sideNames.map((side) => (figure ? words(figure[side]) : '-')),
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
        `${figures.api_requests_per_volume[side]} API requests a volume`,
        `a node holds ${memory[side].busy.pssMib} MiB while busy, ${memory[side].atRest.pssMib} at rest (PSS)`,
      ]),
    ),
    `Moorage: ${figures.api_writes_per_volume} API writes a volume, ${figures.stats_forks} processes for a volume's figures`,
  ].join('\n\n');
}

function part(ours: number, theirs: number): number {
  return Number((ours / theirs).toPrecision(3));
}
