import { isWithoutClass } from './disk-orphans.ts';
import type { Facts, NodeFacts } from './facts.ts';
import { poolRows, poolTroubles } from './nodes.ts';
import { orphansOf, unlisted } from './orphans.ts';
import { type Colour, count, paint, type Terminal, wrapped } from './terminal.ts';
import { type Health, type VolumeRow, volumeRows } from './volumes.ts';

/** Problems, and what to do about them. `-o json` shows it so. */
export interface Problem {
  readonly severity: 'warning' | 'error';
  readonly about: string;
  readonly what: string;
}

/** As `-o json` shows it. Programs depend on these names. */
export interface Status {
  readonly healthy: boolean;
  readonly nodes: number;
  readonly pools: number;
  readonly volumes: number;
  readonly volumesByHealth: Readonly<Partial<Record<Health, number>>>;
  readonly orphans: number;
  readonly erasing: number;
  readonly problems: readonly Problem[];
}

const errors: ReadonlySet<Health> = new Set(['Failed', 'NodeGone', 'Missing']);

/**
 * `reports` is undefined if the cluster does not have the kind NodeStorage. The report of a Node that is not in the cluster
 * does not count.
 */
export function statusOf(
  facts: Facts,
  reports: readonly NodeFacts[] | undefined,
  nodeNames: ReadonlySet<string>,
  nowMs: number,
): Status {
  const nodes = reports?.filter(({ name }) => nodeNames.has(name));
  const rows = volumeRows(facts);
  const pools = poolRows(nodes ?? []);
  const volumesByHealth: Partial<Record<Health, number>> = {};
  for (const { health } of rows) volumesByHealth[health] = (volumesByHealth[health] ?? 0) + 1;
  const orphanFacts = { ...facts, nodes: reports ?? [], nodeNames };
  const orphans = orphansOf(orphanFacts, nowMs).length + unlisted(orphanFacts);
  const problems: readonly Problem[] = [
    ...(nodes || isStaticOnly(facts) ? [] : [noNodes]),
    ...pools.flatMap((row) =>
      poolTroubles(row).map(({ severity, what }) => ({
        severity,
        about: `class ${row.deviceClass} on node ${row.node}`,
        what,
      })),
    ),
    ...(nodes ?? []).flatMap(diskProblems),
    ...[...errors].flatMap((health) => volumeProblems(health, rows)),
  ];
  return {
    healthy: problems.length === 0,
    nodes: nodes?.length ?? 0,
    pools: pools.length,
    volumes: rows.length,
    volumesByHealth,
    orphans,
    erasing: (nodes ?? []).reduce((sum, { status }) => sum + (status?.erasures.total ?? 0), 0),
    problems: problems.toSorted((a, b) => a.severity.localeCompare(b.severity)), // errors first
  };
}

/** Without CSI, Moorage does not need the kind NodeStorage. */
function isStaticOnly({ volumes, staticVolumes }: Facts): boolean {
  return volumes.length === 0 && staticVolumes.length > 0;
}

/** Orphans among the objects are no problem: a retained volume is often kept on purpose. */
function diskProblems({ name, status }: NodeFacts): readonly Problem[] {
  const { total = 0, volumes = [] } = status?.orphans ?? {};
  if (total === 0) return [];
  const withoutClass = volumes.filter(isWithoutClass).length;
  const some = withoutClass > 0 ? `, ${withoutClass} of them without a device class` : '';
  const details = withoutClass === total ? ' or a device class' : some;
  const what = `${count(total, 'volume')} on its disks without a LogicalVolume${details}: see kubectl moorage orphans`;
  return [{ severity: 'warning', about: `node ${name}`, what }];
}

/** Volumes that have the same trouble are one problem, if they are many. */
function volumeProblems(health: Health, rows: readonly VolumeRow[]): readonly Problem[] {
  const affected = rows.filter((row) => row.health === health);
  const nameOf = ({ claim, namespace, name }: VolumeRow) => (claim ? `${namespace}/${claim}` : name);
  const [first] = affected;
  if (!first || affected.length <= 3) {
    return affected.map((row) => ({ severity: 'error', about: `volume ${nameOf(row)}`, what: row.reason ?? health }));
  }
  return [
    {
      severity: 'error',
      about: `${affected.length} volumes are ${health}`,
      what: `see kubectl moorage volumes -A --health ${health} -o wide; the first is ${nameOf(first)}: ${first.reason ?? ''}`,
    },
  ];
}

const noNodes: Problem = {
  severity: 'warning',
  about: 'nodes',
  what: 'unknown: the cluster has no kind NodeStorage; upgrade Moorage there',
};

const mostProblems = 10;

export function statusScreen(status: Status, terminal: Terminal): string {
  const { healthy, problems, volumesByHealth } = status;
  const others = Object.entries(volumesByHealth).filter(([health]) => health !== 'Healthy');
  const title = healthy
    ? paint({ text: '✔ No problems.', colour: 'green' }, terminal)
    : paint({ text: `✘ ${count(problems.length, 'problem')}`, colour: worst(problems) }, terminal);
  const lines = [
    title,
    '',
    `Nodes    ${status.nodes}, with ${count(status.pools, 'pool')}`,
    `Volumes  ${status.volumes}${others.length > 0 ? `: ${others.map(([health, n]) => `${n} ${health}`).join(', ')}` : ''}`,
    ...(status.erasing > 0 ? [`Erasing  ${count(status.erasing, 'removed volume')}`] : []),
    ...(status.orphans > 0 ? [`Orphans  ${status.orphans}: see kubectl moorage orphans`] : []),
  ];
  const shown = problems.slice(0, mostProblems).map(({ severity, about, what }) => {
    const mark = paint({ text: severity === 'error' ? '✘' : '!', colour: colourOf(severity) }, terminal);
    return `${mark} ${about}\n${wrapped(what, '    ', terminal)}`;
  });
  const more = problems.length - shown.length;
  return [
    ...lines,
    ...(shown.length > 0 ? ['', ...shown] : []),
    ...(more > 0 ? [`  and ${count(more, 'more problem')}; use -o json to see all`] : []),
  ].join('\n');
}

function worst(problems: readonly Problem[]): Colour {
  return colourOf(problems.some(({ severity }) => severity === 'error') ? 'error' : 'warning');
}

function colourOf(severity: Problem['severity']): Colour {
  return severity === 'error' ? 'red' : 'yellow';
}
