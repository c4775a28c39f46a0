import { bytesOf, type Quantity } from '../api/logical-volume.ts';
import type { NodeStorageStatus } from '../api/node-storage.ts';
import { formatBytes } from '../base/quantity.ts';
import type { NodeFacts } from './facts.ts';
import { age, bar, byName, type Cell, type Colour, type Format, formatted, type Terminal } from './terminal.ts';

type Pool = NodeStorageStatus['pools'][number];

/** A pool as `-o json` shows it. Programs depend on these names. */
export interface PoolRow {
  readonly node: string;
  readonly deviceClass: string;
  readonly isDefault: boolean;
  readonly type: string;
  /** The volume group, with its thin pool, or the directory. */
  readonly place: string;
  readonly sizeBytes?: bigint;
  readonly usedBytes?: bigint;
  readonly freeBytes?: bigint;
  /** Always kept free. */
  readonly spareBytes?: bigint;
  readonly volumes: number;
  readonly dataPercent?: number;
  readonly metadataPercent?: number;
  readonly health: Pool['health'];
  readonly reason?: string;
  readonly updatedAt: string;
}

/** One row per pool, by node and class. */
export function poolRows(nodes: readonly NodeFacts[]): readonly PoolRow[] {
  return nodes
    .flatMap(({ name, status }) => (status?.pools ?? []).map((pool) => poolRow(name, pool, status?.updatedAt ?? '')))
    .sort((a, b) => byName(a.node, b.node) || byName(a.deviceClass, b.deviceClass));
}

function poolRow(node: string, pool: Pool, updatedAt: string): PoolRow {
  const { deviceClass, type = '', volumeGroup, thinPool, directory, thin, health, reason, volumes = 0 } = pool;
  const bytes = <Name extends string>(name: Name, quantity: Quantity | undefined) =>
    (quantity === undefined ? {} : { [name]: bytesOf(quantity) }) as { [Key in Name]?: bigint };
  return {
    node,
    deviceClass,
    isDefault: pool.default ?? false,
    type,
    place: directory ?? [volumeGroup, thinPool].filter(Boolean).join('/'),
    ...bytes('sizeBytes', pool.size),
    ...bytes('usedBytes', pool.used),
    ...bytes('freeBytes', pool.free),
    ...bytes('spareBytes', pool.spare),
    volumes,
    ...thin,
    health,
    ...(reason && { reason }),
    updatedAt,
  };
}

/** Something about a pool that needs a person. */
export interface PoolTrouble {
  readonly kind: 'Unavailable' | 'Degraded' | 'AlmostFull' | 'ThinDataFull' | 'ThinMetadataFull';
  readonly severity: 'warning' | 'error';
  /** What is wrong, and what to do. */
  readonly what: string;
}

/** As the alerts of the chart have them. */
const limits = { usedShare: 0.95, dataPercent: 85, metadataPercent: 80 };

export function poolTroubles(row: PoolRow): readonly PoolTrouble[] {
  const { health, reason, sizeBytes, usedBytes, dataPercent, metadataPercent } = row;
  const troubles: PoolTrouble[] = [];
  if (health !== 'Healthy') {
    troubles.push({ kind: health, severity: health === 'Unavailable' ? 'error' : 'warning', what: reason || health });
  }
  if (dataPercent === undefined && sizeBytes && Number(usedBytes ?? 0n) / Number(sizeBytes) >= limits.usedShare) {
    troubles.push({
      kind: 'AlmostFull',
      severity: 'warning',
      what: 'almost full: add a disk, or see kubectl moorage orphans',
    });
  }
  if (dataPercent !== undefined && dataPercent > limits.dataPercent) {
    const what = `its thin pool is ${dataPercent}% full, and writes fail when it is full: extend it, or see kubectl moorage orphans`;
    troubles.push({ kind: 'ThinDataFull', severity: 'error', what });
  }
  if (metadataPercent !== undefined && metadataPercent > limits.metadataPercent) {
    const what = `the metadata of its thin pool is ${metadataPercent}% full, and writes fail when it is full: extend it`;
    troubles.push({ kind: 'ThinMetadataFull', severity: 'error', what });
  }
  return troubles;
}

const healthColours: Readonly<Record<Pool['health'], Colour>> = {
  Healthy: 'green',
  Degraded: 'yellow',
  Unavailable: 'red',
};

export function nodeTable(rows: readonly PoolRow[], format: Format, nowMs: number, terminal: Terminal): string {
  const isFirstOfNode = new Set(rows.filter(({ node }, i) => rows[i - 1]?.node !== node));
  const columns = [
    { title: 'NODE', cell: (row: PoolRow) => (isFirstOfNode.has(row) ? row.node : ''), atLeast: 8 },
    {
      title: 'CLASS',
      cell: ({ deviceClass, isDefault }: PoolRow) => `${deviceClass}${isDefault ? ' *' : ''}`,
      atLeast: 6,
    },
    { title: 'TYPE', cell: ({ type }: PoolRow) => type },
    { title: 'USED', cell: usedCell },
    { title: 'FREE', cell: ({ freeBytes }: PoolRow) => sizeOf(freeBytes) },
    { title: 'SIZE', cell: ({ sizeBytes }: PoolRow) => sizeOf(sizeBytes) },
    { title: 'VOLUMES', cell: ({ volumes }: PoolRow) => String(volumes) },
    { title: 'HEALTH', cell: ({ health }: PoolRow): Cell => ({ text: health, colour: healthColours[health] }) },
    { title: 'METADATA', cell: ({ metadataPercent }: PoolRow) => percent(metadataPercent), wide: true },
    { title: 'PLACE', cell: ({ place }: PoolRow) => place, wide: true, atLeast: 8 },
    { title: 'UPDATED', cell: ({ updatedAt }: PoolRow) => age(updatedAt, nowMs), wide: true },
    { title: 'REASON', cell: ({ reason = '' }: PoolRow) => reason, wide: true, atLeast: 12, isSentence: true },
  ];
  return formatted(columns, rows, format, terminal);
}

/** From 80 % on it deserves attention, from 95 % on action. */
function usedCell({ sizeBytes, usedBytes }: PoolRow): Cell {
  if (!sizeBytes || usedBytes === undefined) return { text: '-', colour: 'grey' };
  const share = Number(usedBytes) / Number(sizeBytes);
  const colour = share >= 0.95 ? 'red' : share >= 0.8 ? 'yellow' : 'green';
  return { text: `${bar(share)} ${percent(Math.floor(share * 100)).padStart(4)}`, colour };
}

function percent(value: number | undefined): string {
  return value === undefined ? '' : `${value}%`;
}

function sizeOf(bytes: bigint | undefined): string {
  return bytes === undefined ? '-' : formatBytes(bytes);
}
