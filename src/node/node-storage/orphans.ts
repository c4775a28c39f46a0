import { readdir } from 'node:fs/promises';
import { localPvUidTag } from '../../api/local-pv.ts';
import { type LogicalVolume, type StoredLogicalVolume, volumeIdOf } from '../../api/logical-volume.ts';
import { ephemeralTag, metrics, podTag } from '../../api/names.ts';
import type { NodeOrphanKind } from '../../api/orphans.ts';
import { isMarked, tagValue } from '../../engine/names-and-tags.ts';
import type { PlacedVolume, Volume } from '../../engine/pool.ts';
import { type Pools, poolHolding } from '../../engine/pools.ts';
import type { Informer } from '../../kube/informer.ts';
import { gauge, type Metric } from '../../metrics/metric.ts';
import { classOf } from '../../volumes/pool-holding.ts';

export interface Orphan {
  readonly volume: AnyVolume;
  readonly place: Place;
  readonly sinceMs: number;
}

/** A volume that no class has is in a volume group, and may be in a thin pool. */
export type Place = { readonly deviceClass: string } | Pick<PlacedVolume, 'volumeGroup' | 'thinPool'>;

type AnyVolume = Pick<Volume, 'id' | 'sizeBytes' | 'tags' | 'readOnly'>;

/** The orphans now, and how long until a volume that has no object now may become one. */
export interface FoundOrphans {
  readonly orphans: readonly Orphan[];
  readonly nextInMs: number | undefined;
  /** Whether there is an inline volume that becomes an orphan if its pod goes. */
  readonly dependsOnPods: boolean;
}

/** What refers to volumes. */
export interface References {
  readonly objects: readonly StoredLogicalVolume[];
  /** The uids of this node's static PersistentVolumes; undefined if they are unknown, which means that none is gone. */
  readonly staticUids: ReadonlySet<string> | undefined;
  /** The uids of the pods on this node; undefined if they are unknown, which means that none is gone. */
  readonly pods: ReadonlySet<string> | undefined;
}

/**
 * Finds volumes that have no LogicalVolume. A volume counts only after a whole interval without one: it may just be created
 * or removed, and the watch of LogicalVolumes is always a little late. The inline volume of a pod needs its pod instead, and
 * a static volume its PersistentVolume.
 */
export class Orphans {
  readonly #settleMs: number;
  /** When each volume was first seen without an object. */
  #since: ReadonlyMap<string, number> = new Map();
  #found: readonly Orphan[] = [];

  constructor(settleMs = 5000) {
    this.#settleMs = settleMs;
  }

  /** As found last. */
  get found(): readonly Orphan[] {
    return this.#found;
  }

  find(pools: Pick<Pools, 'all' | 'unserved'>, { objects, staticUids, pods }: References, nowMs: number): FoundOrphans {
    const known = new Set(objects.map(volumeIdOf));
    const since = new Map<string, number>();
    const orphans: Orphan[] = [];
    let nextInMs: number | undefined;
    let dependsOnPods = false;
    for (const { volume, place, key } of volumesOf(pools)) {
      if (known.has(volume.id) || since.has(key)) continue; // classes of one volume group list the same volumes
      if (isStatic(volume, staticUids)) continue;
      if (isInline(volume) && !isPodGone(volume, pods)) {
        dependsOnPods ||= podOf(volume) !== undefined;
        continue;
      }
      const sinceMs = this.#since.get(key) ?? nowMs;
      since.set(key, sinceMs);
      const missingMs = this.#settleMs - (nowMs - sinceMs);
      if (missingMs <= 0) orphans.push({ volume, place, sinceMs });
      else nextInMs = Math.min(nextInMs ?? missingMs, missingMs);
    }
    this.#since = since;
    this.#found = orphans.toSorted(oursFirst);
    return { orphans: this.#found, nextInMs, dependsOnPods };
  }
}

/** Those of all classes by their device, and those that no class has by their names. */
function* volumesOf(pools: Pick<Pools, 'all' | 'unserved'>): Generator<Omit<Orphan, 'sinceMs'> & { key: string }> {
  for (const pool of pools.all()) {
    for (const volume of pool.list()) yield { volume, place: { deviceClass: pool.name }, key: volume.devicePath };
  }
  for (const volume of pools.unserved()) {
    const { id, volumeGroup, thinPool } = volume;
    yield { volume, place: { volumeGroup, ...(thinPool && { thinPool }) }, key: `${volumeGroup}/${id}` };
  }
}

function isInline({ tags }: AnyVolume): boolean {
  return tags.includes(ephemeralTag);
}

/** Whether it is the volume of a static PersistentVolume that exists, or may exist. */
function isStatic({ tags }: AnyVolume, staticUids: ReadonlySet<string> | undefined): boolean {
  const uid = tagValue(tags, localPvUidTag);
  return uid !== undefined && (staticUids === undefined || staticUids.has(uid));
}

function podOf({ tags }: AnyVolume): string | undefined {
  return tagValue(tags, podTag);
}

/** One without the tag, as TopoLVM created them, may be that of any pod. */
function isPodGone(volume: AnyVolume, pods: ReadonlySet<string> | undefined): boolean {
  const pod = podOf(volume);
  return pod !== undefined && pods !== undefined && !pods.has(pod);
}

/** While a pod has its directory, the kubelet will still unpublish its volumes. Undefined if the directory cannot be read. */
export async function podsIn(podsDirectory: string): Promise<ReadonlySet<string> | undefined> {
  try {
    return new Set(await readdir(podsDirectory));
  } catch {
    return undefined;
  }
}

/** Volumes of others, such as an administrator's, must not push ours off the end of a list. */
function oursFirst({ volume: one }: Orphan, { volume: other }: Orphan): number {
  const rank = (volume: AnyVolume) => (isMarked(volume) ? 0 : 1);
  return rank(one) - rank(other) || (one.id < other.id ? -1 : 1);
}

interface Measured {
  readonly nodeName: string;
  readonly orphans: Pick<Orphans, 'found'>;
  /** Only the LogicalVolumes of this node. */
  readonly volumes: Pick<Informer<LogicalVolume>, 'list'>;
  readonly pools: Pick<Pools, 'all' | 'unavailable'>;
}

export function orphanMetric({ nodeName, orphans, volumes, pools }: Measured): Metric {
  return gauge({
    name: metrics.orphans,
    help: 'Volumes of this node that nothing refers to, or that it cannot serve, by kind.',
    labelNames: ['node', 'kind'],
    read: () => {
      const served = orphans.found.filter(({ place }) => 'deviceClass' in place);
      const inline = served.filter(({ volume }) => isInline(volume)).length;
      const withoutObject = orphans.found.length - served.length;
      const counts: Readonly<Record<NodeOrphanKind, number>> = {
        DiskOnly: served.length - inline,
        InlineLeftover: inline,
        ClassGone: withoutObject + volumes.list().filter((volume) => isClassGone(volume, pools)).length,
      };
      return Object.entries(counts).map(([kind, value]) => ({ labels: { node: nodeName, kind }, value }));
    },
  });
}

/** Its device class is not configured any more, and no other class has the volume. */
export function isClassGone(volume: StoredLogicalVolume, pools: Pick<Pools, 'all' | 'unavailable'>): boolean {
  const { metadata, status } = volume;
  const deviceClass = classOf(volume);
  if (!status?.volumeID || !deviceClass || metadata.deletionTimestamp !== undefined) return false;
  const isConfigured = pools.unavailable().has(deviceClass) || pools.all().some(({ name }) => name === deviceClass);
  return !isConfigured && !poolHolding(pools, status.volumeID);
}
