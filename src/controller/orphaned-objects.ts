import { isEmptied, localPvAnnotations, localPvFinalizer } from '../api/local-pv.ts';
import {
  deleting,
  failureOf,
  isSnapshot,
  type LogicalVolume,
  type StoredLogicalVolume,
} from '../api/logical-volume.ts';
import { driverName, metrics, moveAnnotation } from '../api/names.ts';
import {
  type ObjectOrphanKind,
  objectOrphanKinds,
  orphanedPersistentVolume,
  orphanedStaticVolume,
  orphanedVolume,
  type PersistentVolumeState,
  type VolumeState,
} from '../api/orphans.ts';
import type { Clock } from '../base/clock.ts';
import type { Informer } from '../kube/informer.ts';
import type { Node, PersistentVolume, Stored } from '../kube/resource.ts';
import { gauge, type Metric } from '../metrics/metric.ts';
import type { MaybeStatic } from './local-pv/static-volumes.ts';

interface Watched {
  /** The LogicalVolumes of all nodes. */
  readonly volumes: Pick<Informer<LogicalVolume>, 'list' | 'synced'>;
  readonly persistentVolumes: Pick<Informer<PersistentVolume, OurPersistentVolume & MaybeStatic>, 'list' | 'synced'>;
  readonly nodes: Pick<Informer<Node, object>, 'get' | 'synced'>;
}

type OrphanCounts = Readonly<Record<ObjectOrphanKind, number>>;

/** Orphans among the objects of the cluster, counted at a scrape. Nothing is reported before all objects are known. */
export function orphanMetric({ volumes, persistentVolumes, nodes }: Watched, clock: Clock): Metric {
  const counts = (): OrphanCounts | undefined => {
    if (!volumes.synced || !persistentVolumes.synced || !nodes.synced) return undefined;
    const all = persistentVolumes.list();
    const ours = new Map(all.flatMap(({ handle, state }) => (state ? [[handle, state]] : [])));
    const isNodeThere = (name: string) => nodes.get(name) !== undefined;
    const kinds = [
      ...orphansAmong(volumes.list(), ours, isNodeThere, clock.now()),
      ...all.map(({ asStatic }) => asStatic && staticOrphan(asStatic, isNodeThere)),
    ];
    const counts = Object.fromEntries(objectOrphanKinds.map((kind) => [kind, 0])) as Record<ObjectOrphanKind, number>;
    for (const kind of kinds) if (kind) counts[kind] += 1;
    return counts;
  };
  return gauge({
    name: metrics.orphans,
    help: 'Objects of the cluster whose volume, node or owner is gone, by kind.',
    labelNames: ['kind'],
    read: () => Object.entries(counts() ?? {}).map(([kind, value]) => ({ labels: { kind }, value })),
  });
}

/** The PersistentVolumes are by their volume handles. */
function orphansAmong(
  volumes: readonly StoredLogicalVolume[],
  ours: ReadonlyMap<string, PersistentVolumeState>,
  isNodeThere: (name: string) => boolean,
  nowMs: number,
): readonly (ObjectOrphanKind | undefined)[] {
  const known = new Set(volumes.map(({ status }) => status?.volumeID));
  return [
    ...volumes.map((volume) =>
      orphanedVolume(stateOf(volume), {
        persistentVolume: ours.get(volume.status?.volumeID ?? ''),
        isNodeThere: isNodeThere(volume.spec.nodeName),
        nowMs,
      }),
    ),
    ...[...ours]
      .filter(([handle]) => !known.has(handle))
      .map(([, persistentVolume]) => orphanedPersistentVolume(persistentVolume, nowMs)),
  ];
}

/** Undefined also for one that has no node yet. */
function staticOrphan(
  { metadata, status }: Stored<PersistentVolume>,
  isNodeThere: (name: string) => boolean,
): ObjectOrphanKind | undefined {
  const node = metadata.annotations?.[localPvAnnotations.node];
  if (node === undefined || !metadata.finalizers?.includes(localPvFinalizer)) return undefined;
  const state = { phase: status?.phase ?? '', isEmptied: isEmptied(metadata.annotations) };
  return orphanedStaticVolume(state, isNodeThere(node));
}

function stateOf(volume: StoredLogicalVolume): VolumeState {
  return {
    createdAt: volume.metadata.creationTimestamp,
    volumeId: volume.status?.volumeID || undefined,
    isSnapshot: isSnapshot(volume),
    isDeleting: deleting(volume),
    isMissing: Boolean(volume.status?.missingFrom),
    isReceiving: volume.metadata.annotations?.[moveAnnotation] !== undefined,
    failure: failureOf(volume)?.message,
  };
}

/** What the controller keeps of a PersistentVolume. */
export interface OurPersistentVolume {
  readonly handle: string;
  /** Undefined for a volume of another driver. */
  readonly state?: PersistentVolumeState;
}

export function ourPersistentVolume({ metadata, spec, status }: Stored<PersistentVolume>): OurPersistentVolume {
  if (spec?.csi?.driver !== driverName) return otherDriver;
  const state = {
    createdAt: metadata.creationTimestamp,
    phase: status?.phase ?? '',
    isRetained: spec.persistentVolumeReclaimPolicy === 'Retain',
  };
  return { handle: spec.csi.volumeHandle, state };
}

/** One for all: a cluster may have many volumes of other drivers. */
const otherDriver: OurPersistentVolume = { handle: '' };
