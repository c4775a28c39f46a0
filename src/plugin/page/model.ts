import type { Severity } from '../../explain/explanation.ts';
import type { EvacuationPlan } from '../moves/evacuation-plan.ts';
import type { MoveRow } from '../moves/move-rows.ts';
import type { PoolRow } from '../nodes.ts';
import type { Orphan } from '../orphans.ts';
import type { Status } from '../status.ts';
import type { VolumeDetails } from '../volume.ts';
import type { VolumeRow } from '../volumes.ts';

/** JSON has no bigint: sizes are numbers of bytes. */
export type Json<T> = T extends bigint
  ? number
  : T extends readonly (infer Item)[]
    ? readonly Json<Item>[]
    : T extends object
      ? { readonly [Key in keyof T]: Json<T[Key]> }
      : T;

export function toJson(value: unknown): string {
  return JSON.stringify(value, (_, each: unknown) => (typeof each === 'bigint' ? Number(each) : each));
}

/** When a pool is full, if it goes on as it did since the page's server has watched it. */
export interface Forecast {
  readonly of: 'space' | 'metadata';
  readonly fullAtMs: number;
}

export interface PagePool extends Json<PoolRow> {
  readonly forecast?: Forecast;
  /** Whether the node still exists. */
  readonly isNodeThere: boolean;
}

/** A claim or a pod that waits, and why. */
export interface Waiting {
  readonly kind: 'claim' | 'pod';
  readonly namespace: string;
  readonly name: string;
  readonly since: string;
  /** `waits` ends by itself, `stuck` needs somebody. Undefined until it is known. */
  readonly severity?: Severity;
  /** As in `kubectl moorage why -o json`; empty until it is known. */
  readonly code: string;
  readonly sentence: string;
  readonly evidence: readonly string[];
  /** Commands to run, or what to write. */
  readonly remedy: readonly string[];
}

export type PageVolume = Json<VolumeRow>;
export type PageMove = Json<MoveRow>;
export type PageOrphan = Json<Orphan>;

/** The rows of the page. Each has a key, by which changes refer to it. */
export interface Rows {
  readonly waiting: Waiting;
  readonly pools: PagePool;
  readonly volumes: PageVolume;
  readonly moves: PageMove;
  readonly orphans: PageOrphan;
}
export type TableName = keyof Rows;
export const tableNames: readonly TableName[] = ['waiting', 'pools', 'volumes', 'moves', 'orphans'];

export interface Summary extends Json<Status> {
  /** On disks, beyond those that the nodes list. */
  readonly unlistedOrphans: number;
  /** The names of the Nodes in the cluster. */
  readonly nodeNames: readonly string[];
  /** Tables that have no rows because what they are computed from could not be read. */
  readonly unknown: readonly TableName[];
}

/** Resources that the page cannot read now, and why. */
export interface Failure {
  readonly resources: readonly string[];
  readonly message: string;
}

/** What the server sends, one JSON object per line. A stream begins with everything, up to `ready`; changes follow. */
export type Message =
  | { readonly kind: 'cluster'; readonly name: string; readonly version: string }
  | { readonly kind: 'summary'; readonly summary: Summary }
  | { readonly kind: 'failures'; readonly failures: readonly Failure[] }
  | {
      [Name in TableName]: {
        readonly kind: 'rows';
        readonly table: Name;
        readonly rows: Readonly<Record<string, Rows[Name]>>;
        readonly gone: readonly string[];
      };
    }[TableName]
  | { readonly kind: 'ready' };

/** One moment in the life of a volume. */
export interface Moment {
  readonly time: string;
  readonly kind: MomentKind;
  readonly title: string;
  readonly detail?: string;
  readonly isWarning?: boolean;
}

export type MomentKind =
  | 'claimed'
  | 'scheduled'
  | 'created'
  | 'bound'
  | 'mounted'
  | 'grown'
  | 'snapshotted'
  | 'moved'
  | 'removed'
  | 'event';

/** The answer to /api/volume. */
export interface PageVolumeDetails extends Json<VolumeDetails> {
  readonly timeline: readonly Moment[];
}

/** What was seen of a pool. */
export interface Sample {
  readonly atMs: number;
  readonly usedBytes: number;
  readonly sizeBytes: number;
  readonly metadataPercent?: number;
}

/** The answer to /api/node. */
export interface PageNode {
  readonly versions: Readonly<Record<string, string>>;
  readonly erasures: readonly { readonly name: string; readonly deviceClass: string; readonly donePercent: number }[];
  /** By device class. */
  readonly history: Readonly<Record<string, readonly Sample[]>>;
}

/** The answer to /api/evacuation. */
export interface PageEvacuation extends Json<EvacuationPlan> {
  /** An estimate, if one volume is copied after the other. */
  readonly seconds: number;
  readonly bytesPerSecond: number;
}
