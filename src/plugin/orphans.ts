import { allowDeleteAnnotation } from '../api/names.ts';
import { type OrphanKind, orphanedPersistentVolume, orphanedVolume, type VolumeOrphanKind } from '../api/orphans.ts';
import { formatBytes } from '../base/quantity.ts';
import { diskOrphans, importOf } from './disk-orphans.ts';
import type { Facts, NodeFacts, PersistentVolumeFacts, VolumeFacts } from './facts.ts';
import { staticVolumeOrphan } from './static-volumes.ts';
import { age, byName, type Colour, type Column, type Format, formatted, type Terminal, wrapped } from './terminal.ts';

/** An orphan as `-o json` shows it. Programs depend on these names. */
export interface Orphan {
  readonly kind: OrphanKind;
  /** Of the LogicalVolume or PersistentVolume; without both, of the volume on the disks. */
  readonly name: string;
  readonly node: string;
  readonly sizeBytes: bigint;
  /** Since when it is one, or if that is unknown, when the object was created. */
  readonly since?: string;
  /** The claim, or the pod of an inline volume. */
  readonly lastOwner?: string;
  readonly reason: string;
  /** What must be done before the others. */
  readonly first?: string;
  /** Puts the data to use again. Several commands are on several lines. */
  readonly keep?: string;
  /** Gives the data up. */
  readonly remove?: string;
}

export interface OrphanFacts extends Facts {
  /** What agents report; empty if the cluster does not have the kind NodeStorage. */
  readonly nodes: readonly NodeFacts[];
  /** The Nodes in the cluster. */
  readonly nodeNames: ReadonlySet<string>;
}

/** By kind, node and name. */
export function orphansOf(facts: OrphanFacts, nowMs: number): readonly Orphan[] {
  const known = new Set(facts.volumes.map(({ volumeId }) => volumeId));
  const onNodes = new Set(facts.volumes.map(({ node, volumeId }) => `${node}/${volumeId}`));
  const reported = new Map(facts.nodes.map(({ name, status }) => [name, status]));
  return [
    ...reports(facts)
      .flatMap((node) => diskOrphans(node, facts.agents))
      .filter(({ node, name }) => !onNodes.has(`${node}/${name}`)), // the report is up to half a minute old
    ...facts.volumes.flatMap((volume) => volumeOrphan(volume, facts, reported, nowMs) ?? []),
    ...[...facts.persistentVolumes.values()]
      .filter(({ handle }) => !known.has(handle))
      .flatMap((pv) => persistentVolumeOrphan(pv, facts, nowMs) ?? []),
    ...facts.staticVolumes.flatMap((volume) => staticVolumeOrphan(volume, facts.claims, facts.nodeNames) ?? []),
  ].sort((a, b) => byName(a.kind, b.kind) || byName(a.node, b.node) || byName(a.name, b.name));
}

/** How many there are on the disks that the agents did not list. */
export function unlisted(facts: Pick<OrphanFacts, 'nodes' | 'nodeNames'>): number {
  return reports(facts).reduce(
    (sum, { status }) => sum + (status ? status.orphans.total - status.orphans.volumes.length : 0),
    0,
  );
}

/** What a node reported before it was removed does not count. */
function reports({ nodes, nodeNames }: Pick<OrphanFacts, 'nodes' | 'nodeNames'>): readonly NodeFacts[] {
  return nodes.filter(({ name }) => nodeNames.has(name));
}

type Reported = ReadonlyMap<string, NodeFacts['status']>;

function volumeOrphan(volume: VolumeFacts, facts: OrphanFacts, reported: Reported, nowMs: number): Orphan | undefined {
  const { name, node, sizeBytes, createdAt } = volume;
  const pv = facts.persistentVolumes.get(volume.volumeId ?? '');
  const isNodeThere = facts.nodeNames.has(node);
  const kind =
    orphanedVolume(volume, { persistentVolume: pv, isNodeThere, nowMs }) ??
    (isClassGone(volume, reported) ? 'ClassGone' : undefined);
  if (!kind) return undefined;
  const lastOwner = pv?.claim ?? volume.claim;
  return {
    kind,
    name,
    node,
    sizeBytes,
    since: (kind === 'Released' && pv?.phaseSince) || createdAt,
    ...(lastOwner && { lastOwner }),
    ...resolutionOf(kind, volume, pv, facts),
  };
}

type Resolution = Pick<Orphan, 'reason' | 'keep' | 'remove'>;

function resolutionOf(
  kind: VolumeOrphanKind | 'ClassGone',
  volume: VolumeFacts,
  pv: PersistentVolumeFacts | undefined,
  facts: Facts,
): Resolution {
  const { name, node, deviceClass, failure = '', volumeId = '', isSnapshot } = volume;
  const removal = isSnapshot
    ? { reason: '; to give it up, delete its VolumeSnapshot' }
    : { reason: '', remove: pv ? removalOf(pv, facts) : deletionOf(name) };
  switch (kind) {
    case 'Missing':
      return { ...removal, reason: `not on the disks of its node: return the disks${removal.reason}` };
    case 'NodeGone':
      return {
        ...removal,
        reason: `node ${node} is not in the cluster: return it with its disks${removal.reason}`,
      };
    case 'Refused':
      return { reason: `its node refused it: ${failure}`, remove: `kubectl delete logicalvolume ${name}` };
    case 'Released':
      return {
        ...removal,
        reason: 'its claim was deleted, and its data is retained',
        ...(pv && { keep: `kubectl moorage reattach pv/${pv.name}` }),
      };
    case 'Unclaimed':
      return {
        ...removal,
        keep: importOf(node),
        reason: `no PersistentVolume has the volume handle ${volumeId}: its claim was deleted while it was created, or somebody deleted the PersistentVolume; if it was never used, it is removed within hours`,
      };
    case 'ClassGone':
      return {
        reason: `device class ${deviceClass} is not configured on node ${node}: add it to the configuration again, also to remove the volume; if it was renamed, the volume is still served`,
      };
  }
}

function persistentVolumeOrphan(pv: PersistentVolumeFacts, facts: OrphanFacts, nowMs: number): Orphan | undefined {
  const kind = orphanedPersistentVolume(pv, nowMs);
  if (!kind) return undefined;
  const { name, node = '', sizeBytes, createdAt, claim } = pv;
  return {
    kind,
    name,
    node,
    sizeBytes,
    since: createdAt,
    ...(claim && { lastOwner: claim }),
    reason: 'the PersistentVolume has no LogicalVolume',
    ...(facts.nodeNames.has(node) && { keep: `kubectl moorage reattach pv/${name}` }),
    remove: removalOf(pv, facts),
  };
}

/** A claim that still exists gets another volume. */
function removalOf(pv: PersistentVolumeFacts, facts: Facts): string {
  const [namespace, claim] = (pv.claim ?? '').split('/');
  return isClaimed(pv, facts)
    ? `kubectl moorage drop pvc/${claim} -n ${namespace}`
    : `kubectl moorage purge pv/${pv.name}`;
}

function isClaimed({ claim = '', phase }: PersistentVolumeFacts, { claims }: Facts): boolean {
  return phase === 'Bound' && claims.has(claim);
}

export function deletionOf(name: string): string {
  return `kubectl annotate logicalvolume ${name} ${allowDeleteAnnotation}=true && kubectl delete logicalvolume ${name}`;
}

/** As far as its node has reported. A volume in the default class names none. */
function isClassGone({ node, deviceClass, volumeId, isDeleting }: VolumeFacts, reported: Reported): boolean {
  if (!volumeId || !deviceClass || isDeleting) return false;
  const pools = reported.get(node)?.pools;
  return pools !== undefined && !pools.some((pool) => pool.deviceClass === deviceClass);
}

const colours: Readonly<Partial<Record<OrphanKind, Colour>>> = { Missing: 'red', NodeGone: 'red' };

/** Each orphan with its commands, which are never cut off: they are there to be copied. */
export function orphanScreen(orphans: readonly Orphan[], format: Format, nowMs: number, terminal: Terminal): string {
  const columns: readonly Column<Orphan>[] = [
    { title: 'KIND', cell: ({ kind }) => ({ text: kind, colour: colours[kind] ?? 'yellow' }) },
    { title: 'NAME', cell: ({ name }) => name, atLeast: 12 },
    { title: 'NODE', cell: ({ node }) => node, atLeast: 8 },
    { title: 'SIZE', cell: ({ sizeBytes }) => formatBytes(sizeBytes) },
    { title: 'AGE', cell: ({ since }) => (since ? age(since, nowMs) : '') },
    { title: 'LAST OWNER', cell: ({ lastOwner = '' }) => lastOwner, atLeast: 10 },
    { title: 'REASON', cell: ({ reason }) => reason, wide: true, atLeast: 12, isSentence: true },
  ];
  const [header = '', ...lines] = formatted(columns, orphans, format, terminal).split('\n');
  const details = orphans.map(({ reason, first, keep, remove }) => {
    const labelled = [
      ...(first ? labelledAs('first:', wrapped(first, '', beside(terminal, 12))) : []),
      ...(keep ? labelledAs('keep:', keep) : []),
      ...(remove ? labelledAs('remove:', remove) : []),
    ];
    return keep || remove ? labelled : [wrapped(reason, '    ', terminal), ...labelled];
  });
  return [header, ...lines.flatMap((line, i) => [line, ...(details[i] ?? [])])].join('\n');
}

function beside({ columns, ...terminal }: Terminal, taken: number): Terminal {
  return { ...terminal, columns: columns && Math.max(columns - taken, 20) };
}

function labelledAs(label: string, text: string): readonly string[] {
  return text.split('\n').map((line, i) => `    ${(i === 0 ? label : '').padEnd(8)}${line}`);
}
