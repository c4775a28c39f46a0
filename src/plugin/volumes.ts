import { formatBytes } from '../base/quantity.ts';
import type { Facts, VolumeFacts } from './facts.ts';
import { staticVolumeRow } from './static-volumes.ts';
import { age, byName, type Cell, type Colour, type Column, type Format, formatted, type Terminal } from './terminal.ts';

export const healths = [
  'Healthy',
  'Creating',
  'Growing',
  'Receiving',
  'Deleting',
  'Released',
  'Unclaimed',
  'Failed',
  'NodeGone',
  'Missing',
] as const;
export type Health = (typeof healths)[number];

const colours: Readonly<Record<Health, Colour>> = {
  Healthy: 'green',
  Creating: 'yellow',
  Growing: 'yellow',
  Receiving: 'yellow',
  Deleting: 'yellow',
  Released: 'yellow',
  Unclaimed: 'yellow',
  Failed: 'red',
  NodeGone: 'red',
  Missing: 'red',
};

/** A volume as `-o json` shows it. Programs depend on these names. */
export interface VolumeRow {
  readonly name: string;
  readonly namespace?: string;
  readonly claim?: string;
  readonly pods: readonly string[];
  readonly node: string;
  /** Empty for the node's default class. A static volume may have a volume group instead. */
  readonly deviceClass: string;
  readonly storageClass: string;
  readonly sizeBytes: bigint;
  readonly health: Health;
  /** Why it is not healthy. */
  readonly reason?: string;
  readonly volumeId?: string;
  readonly createdAt: string;
}

/** Undefined selects everything. */
export interface VolumeFilter {
  readonly namespace?: string | undefined;
  readonly node?: string | undefined;
  readonly deviceClass?: string | undefined;
  readonly health?: Health | undefined;
}

/** One row per volume, by namespace and claim; those without a claim are last, and in no namespace. */
export function volumeRows(facts: Facts, filter: VolumeFilter = {}): readonly VolumeRow[] {
  return unsortedVolumeRows(facts)
    .filter(
      ({ namespace, node, deviceClass, health }) =>
        matches(filter.namespace, namespace) &&
        matches(filter.node, node) &&
        matches(filter.deviceClass, deviceClass) &&
        matches(filter.health, health),
    )
    .sort(byClaim);
}

/** In no order: sorting them takes longer than everything else. */
export function unsortedVolumeRows(facts: Facts): VolumeRow[] {
  const volumes = facts.volumes.filter(({ isSnapshot }) => !isSnapshot).map((volume) => volumeRow(volume, facts));
  return [...volumes, ...facts.staticVolumes.map((volume) => staticVolumeRow(volume, facts))];
}

export function byClaim(a: VolumeRow, b: VolumeRow): number {
  return Number(!a.claim) - Number(!b.claim) || byName(keyOf(a), keyOf(b));
}

function matches(wanted: string | undefined, actual: string | undefined): boolean {
  return wanted === undefined || wanted === actual;
}

function keyOf({ namespace, claim, name }: VolumeRow): string {
  return claim ? `${namespace}/${claim}` : name;
}

/** What decides about one volume. */
type Surroundings = Pick<Facts, 'persistentVolumes' | 'claims' | 'users'>;

export function volumeRow(volume: VolumeFacts, facts: Surroundings): VolumeRow {
  const pv = facts.persistentVolumes.get(volume.volumeId ?? '');
  const key = pv?.claim ?? volume.claim;
  const [namespace, claim] = key?.split('/') ?? [];
  const { health, reason } = healthOf(volume, facts);
  return {
    name: volume.name,
    ...(namespace && claim && { namespace, claim }),
    pods: (key && facts.users.get(key)) || [],
    node: volume.node,
    deviceClass: volume.deviceClass,
    storageClass: pv?.storageClass ?? '',
    sizeBytes: volume.sizeBytes,
    health,
    ...(reason && { reason }),
    ...(volume.volumeId && { volumeId: volume.volumeId }),
    createdAt: volume.createdAt,
  };
}

/** What matters most comes first. */
export function healthOf(
  volume: VolumeFacts,
  facts: Surroundings,
): { readonly health: Health; readonly reason?: string } {
  const pv = facts.persistentVolumes.get(volume.volumeId ?? '');
  const claim = pv?.claim ?? volume.claim;
  if (volume.isMissing) {
    return {
      health: 'Missing',
      reason: `not on the disks of node ${volume.node}: return the disks, or give the data up with kubectl moorage drop`,
    };
  }
  if (volume.isNodeGone) {
    return {
      health: 'NodeGone',
      reason: `node ${volume.node} was removed: return it with its disks, or give the data up with kubectl moorage drop`,
    };
  }
  const failure = failureOf(volume);
  if (failure) return { health: 'Failed', reason: failure };
  if (volume.isDeleting) return { health: 'Deleting' };
  if (!volume.volumeId) return { health: 'Creating' };
  if (volume.isReceiving) {
    return { health: 'Receiving', reason: `claim ${claim ?? ''} moves to this node; see kubectl moorage moves` };
  }
  if (pv?.phase === 'Released') {
    return {
      health: 'Released',
      reason: `${claim ? `its claim ${claim} was deleted` : 'it belongs to no claim'}, and its policy is to retain the data`,
    };
  }
  if (!pv) {
    const isAwaited = claim !== undefined && facts.claims.get(claim)?.phase === 'Pending';
    return isAwaited ? { health: 'Creating' } : { health: 'Unclaimed', reason: 'it has no PersistentVolume' };
  }
  if (claim && facts.claims.get(claim)?.isGrowing) return { health: 'Growing' };
  return { health: 'Healthy' };
}

function failureOf({ removalFailure, growthFailure, failure }: VolumeFacts): string | undefined {
  if (removalFailure) return `cannot be removed: ${removalFailure}`;
  if (growthFailure) return `cannot be grown: ${growthFailure}`;
  return failure && `cannot be created: ${failure}`;
}

export function volumeTable(
  rows: readonly VolumeRow[],
  { format, allNamespaces, nowMs }: { format: Format; allNamespaces: boolean; nowMs: number },
  terminal: Terminal,
): string {
  const columns: readonly Column<VolumeRow>[] = [
    ...(allNamespaces ? [{ title: 'NAMESPACE', cell: ({ namespace = '' }: VolumeRow) => namespace, atLeast: 8 }] : []),
    { title: 'CLAIM', cell: ({ claim, name }) => claim ?? `(${name})`, atLeast: 12 },
    { title: 'POD', cell: ({ pods }) => podsCell(pods), atLeast: 8 },
    { title: 'NODE', cell: ({ node }) => node, atLeast: 8 },
    { title: 'CLASS', cell: ({ deviceClass }) => deviceClass || '(default)', atLeast: 6 },
    { title: 'SIZE', cell: ({ sizeBytes }) => formatBytes(sizeBytes) },
    { title: 'HEALTH', cell: ({ health }) => healthCell(health) },
    { title: 'AGE', cell: ({ createdAt }) => age(createdAt, nowMs) },
    { title: 'STORAGECLASS', cell: ({ storageClass }) => storageClass, wide: true, atLeast: 8 },
    { title: 'VOLUME', cell: ({ name }) => name, wide: true },
    { title: 'REASON', cell: ({ reason = '' }) => reason, wide: true, atLeast: 12, isSentence: true },
  ];
  return formatted(columns, rows, format, terminal);
}

export function healthCell(health: Health): Cell {
  return { text: health, colour: colours[health] };
}

function podsCell(pods: readonly string[]): Cell {
  const [first = '', ...more] = pods;
  if (!first) return { text: '-', colour: 'grey' };
  return { text: more.length > 0 ? `${first} +${more.length}` : first };
}
