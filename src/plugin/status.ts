import { isWithoutClass } from './disk-orphans.ts';
import type { Facts, NodeFacts, NodeState } from './facts.ts';
import { poolRows, poolTroubles } from './nodes.ts';
import { type Orphan, type OrphanFacts, orphansOf, unlisted } from './orphans.ts';
import { type Colour, count, paint, type Terminal, wrapped } from './terminal.ts';
import { byClaim, type Health, unsortedVolumeRows, type VolumeRow } from './volumes.ts';

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

export interface StatusFacts extends OrphanFacts {
  /** The Nodes in the cluster that are not ready. */
  readonly unready: readonly NodeState[];
}

const errors: ReadonlySet<Health> = new Set(['Failed', 'NodeGone', 'Missing']);

/**
 * `reports` is undefined if the cluster does not have the kind NodeStorage. The report of a Node that is not in the cluster
 * does not count.
 */
export function statusOf(
  facts: Facts,
  reports: readonly NodeFacts[] | undefined,
  nodes: readonly NodeState[],
  nowMs: number,
): Status {
  const all = withNodes(facts, reports ?? [], nodes);
  return statusFrom(all, reports !== undefined, unsortedVolumeRows(facts), orphansOf(all, nowMs));
}

export function withNodes(facts: Facts, reports: readonly NodeFacts[], nodes: readonly NodeState[]): StatusFacts {
  return {
    ...facts,
    nodes: reports,
    nodeNames: new Set(nodes.map(({ name }) => name)),
    unready: nodes.filter(({ unready }) => unready !== undefined),
  };
}

/** For the page, which shows the rows and orphans too. */
export function statusFrom(
  facts: StatusFacts,
  hasReports: boolean,
  rows: readonly VolumeRow[],
  orphans: readonly Orphan[],
): Status {
  const nodes = hasReports ? facts.nodes.filter(({ name }) => facts.nodeNames.has(name)) : undefined;
  const pools = poolRows(nodes ?? []);
  const volumesByHealth: Partial<Record<Health, number>> = {};
  for (const { health } of rows) volumesByHealth[health] = (volumesByHealth[health] ?? 0) + 1;
  const problems: readonly Problem[] = [
    ...(nodes || isStaticOnly(facts) ? [] : [noNodes]),
    ...unreadyProblems(facts, rows),
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
    orphans: orphans.length + unlisted(facts),
    erasing: (nodes ?? []).reduce((sum, { status }) => sum + (status?.erasures.total ?? 0), 0),
    problems: errorsFirst(problems),
  };
}

/** Lists `first` before the other problems of the same severity. */
export function withProblems(first: readonly Problem[], status: Status): Status {
  const problems = errorsFirst([...first, ...status.problems]);
  return { ...status, healthy: problems.length === 0, problems };
}

function errorsFirst(problems: readonly Problem[]): readonly Problem[] {
  return problems.toSorted((a, b) => a.severity.localeCompare(b.severity));
}

/** Without CSI, Moorage does not need the kind NodeStorage. */
function isStaticOnly({ volumes, staticVolumes }: Facts): boolean {
  return volumes.length === 0 && staticVolumes.length > 0;
}

/** Nodes without Moorage are not its concern. */
function unreadyProblems({ unready, nodes }: StatusFacts, rows: readonly VolumeRow[]): readonly Problem[] {
  if (unready.length === 0) return [];
  const reporting = new Set(nodes.map(({ name }) => name));
  const byNode = Map.groupBy(rows, ({ node }) => node);
  return unready
    .filter(({ name }) => reporting.has(name) || byNode.has(name))
    .map(({ name, unready }) => {
      const volumes = byNode.get(name) ?? [];
      const pods = new Set(volumes.flatMap(({ namespace, pods }) => pods.map((pod) => `${namespace}/${pod}`)));
      const held = `${count(volumes.length, 'volume')}, used by ${pods.size > 0 ? count(pods.size, 'pod') : 'no pod'}`;
      const what = `${unready}; it has ${volumes.length > 0 ? held : 'no volumes'}: see kubectl get node ${name}`;
      return { severity: volumes.length > 0 ? 'error' : 'warning', about: `node ${name}`, what };
    });
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
  const affected = rows.filter((row) => row.health === health).sort(byClaim);
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
