import type { MoveRow } from '../moves/move-rows.ts';
import { poolRows } from '../nodes.ts';
import { type Orphan, unlisted } from '../orphans.ts';
import { type StatusFacts, statusFrom } from '../status.ts';
import type { VolumeRow } from '../volumes.ts';
import { forecastOf, type History } from './history.ts';
import type { Watched } from './live-cluster.ts';
import { type Summary, type TableName, tableNames, type Waiting } from './model.ts';

/** What a table is computed from: what is watched, and what follows from it. */
export type Input = Watched | 'explanations';

/** What is known of the cluster at one moment. */
export interface Seen {
  readonly facts: StatusFacts;
  /** In no order. Computed when they are first asked for: there may be tens of thousands. */
  readonly volumes: () => readonly VolumeRow[];
  readonly orphans: () => readonly Orphan[];
  readonly moves: readonly MoveRow[];
  readonly waiting: readonly Waiting[];
  readonly hasReports: boolean;
  /** Could not be read. */
  readonly unread: ReadonlySet<Watched>;
  readonly history: History;
  readonly nowMs: number;
}

export interface Table {
  /** It is computed again when one of these has changed. */
  readonly dependsOn: ReadonlySet<Input>;
  /** Without these nothing can be said: the table has no rows. */
  readonly needs: readonly Watched[];
  /** Rows with their keys. What a row is, `Rows` says. */
  rows(seen: Seen): readonly (readonly [key: string, row: object])[];
}

const objectsOfVolumes = ['volumes', 'persistentVolumes', 'claims', 'pods'] as const;

export const tables: Readonly<Record<TableName, Table>> = {
  waiting: {
    dependsOn: new Set<Input>(['explanations']),
    needs: ['claims'],
    rows: ({ waiting }) => waiting.map((row) => [`${row.kind}/${row.namespace}/${row.name}`, row]),
  },
  pools: {
    dependsOn: new Set<Input>(['reports', 'nodes']),
    needs: ['reports', 'nodes'],
    rows: ({ facts, history, nowMs }) =>
      poolRows(facts.nodes).map((row) => {
        const forecast = forecastOf(history.of(poolKey(row.node, row.deviceClass)), nowMs);
        const isNodeThere = facts.nodeNames.has(row.node);
        return [poolKey(row.node, row.deviceClass), { ...row, isNodeThere, ...(forecast && { forecast }) }];
      }),
  },
  volumes: {
    dependsOn: new Set<Input>(objectsOfVolumes),
    needs: ['volumes', 'persistentVolumes', 'claims'],
    rows: ({ volumes }) => volumes().map((row) => [row.name, row]),
  },
  moves: {
    dependsOn: new Set<Input>(['moves']),
    needs: ['moves'],
    rows: ({ moves }) => moves.map((row) => [`${row.namespace}/${row.name}`, row]),
  },
  orphans: {
    dependsOn: new Set<Input>([...objectsOfVolumes, 'nodes', 'reports']),
    needs: ['volumes', 'persistentVolumes', 'claims', 'nodes', 'reports'],
    rows: ({ orphans }) => orphans().map((row) => [`${row.kind}/${row.node}/${row.name}`, row]),
  },
};

export function isUnknown(name: TableName, { unread }: Seen): boolean {
  return tables[name].needs.some((each) => unread.has(each));
}

export function poolKey(node: string, deviceClass: string): string {
  return `${node}/${deviceClass}`;
}

/** At the top of the page. It depends on everything but moves. */
export function summaryOf(seen: Seen): Summary {
  const { facts, hasReports, volumes, orphans } = seen;
  const status = statusFrom(facts, hasReports, volumes(), orphans());
  const unknown = tableNames.filter((name) => isUnknown(name, seen));
  return { ...status, unlistedOrphans: unlisted(facts), nodeNames: [...facts.nodeNames], unknown };
}
