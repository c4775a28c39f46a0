import type { MoveRow } from '../moves/move-rows.ts';
import { poolRows } from '../nodes.ts';
import { type OrphanFacts, orphansOf, unlisted } from '../orphans.ts';
import { statusOf } from '../status.ts';
import { volumeRows } from '../volumes.ts';
import { forecastOf, type History } from './history.ts';
import type { Watched } from './live-cluster.ts';
import type { Summary, TableName, Waiting } from './model.ts';

/** What a table is computed from: what is watched, and what follows from it. */
export type Input = Watched | 'explanations';

/** What is known of the cluster at one moment. */
export interface Seen {
  readonly facts: OrphanFacts;
  readonly moves: readonly MoveRow[];
  readonly waiting: readonly Waiting[];
  readonly hasReports: boolean;
  readonly history: History;
  readonly nowMs: number;
}

export interface Table {
  /** It is computed again when one of these has changed. */
  readonly dependsOn: ReadonlySet<Input>;
  /** Rows with their keys. What a row is, `Rows` says. */
  rows(seen: Seen): readonly (readonly [key: string, row: object])[];
}

const objectsOfVolumes = ['volumes', 'persistentVolumes', 'claims', 'pods'] as const;

export const tables: Readonly<Record<TableName, Table>> = {
  waiting: {
    dependsOn: new Set<Input>(['explanations']),
    rows: ({ waiting }) => waiting.map((row) => [`${row.kind}/${row.namespace}/${row.name}`, row]),
  },
  pools: {
    dependsOn: new Set<Input>(['reports', 'nodes']),
    rows: ({ facts, history, nowMs }) =>
      poolRows(facts.nodes).map((row) => {
        const forecast = forecastOf(history.of(poolKey(row.node, row.deviceClass)), nowMs);
        const isNodeThere = facts.nodeNames.has(row.node);
        return [poolKey(row.node, row.deviceClass), { ...row, isNodeThere, ...(forecast && { forecast }) }];
      }),
  },
  volumes: {
    dependsOn: new Set<Input>(objectsOfVolumes),
    rows: ({ facts }) => volumeRows(facts).map((row) => [row.name, row]),
  },
  moves: {
    dependsOn: new Set<Input>(['moves']),
    rows: ({ moves }) => moves.map((row) => [`${row.namespace}/${row.name}`, row]),
  },
  orphans: {
    dependsOn: new Set<Input>([...objectsOfVolumes, 'nodes', 'reports']),
    rows: ({ facts, nowMs }) => orphansOf(facts, nowMs).map((row) => [`${row.kind}/${row.node}/${row.name}`, row]),
  },
};

export function poolKey(node: string, deviceClass: string): string {
  return `${node}/${deviceClass}`;
}

/** At the top of the page. It depends on everything but moves. */
export function summaryOf({ facts, hasReports, nowMs }: Seen): Summary {
  const status = statusOf(facts, hasReports ? facts.nodes : undefined, facts.nodeNames, nowMs);
  return { ...status, unlistedOrphans: unlisted(facts), nodeNames: [...facts.nodeNames] };
}
