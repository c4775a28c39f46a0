import {
  deleting,
  failureOf,
  isSnapshot,
  type LogicalVolume,
  type StoredLogicalVolume,
} from '../api/logical-volume.ts';
import { driverName, metrics } from '../api/names.ts';
import {
  type ObjectOrphanKind,
  objectOrphanKinds,
  orphanedPersistentVolume,
  orphanedVolume,
  type PersistentVolumeState,
  type VolumeState,
} from '../api/orphans.ts';
import type { Clock } from '../base/clock.ts';
import { Requeue } from '../base/keyed-queue.ts';
import type { Work } from '../base/work.ts';
import type { KubeClient } from '../kube/client.ts';
import type { Informer } from '../kube/informer.ts';
import { type Node, type PersistentVolume, persistentVolumes, type Stored } from '../kube/resource.ts';
import { gauge, type Metric } from '../metrics/metric.ts';

interface Collaborators {
  readonly client: Pick<KubeClient, 'list'>;
  /** The LogicalVolumes of all nodes. */
  readonly volumes: Pick<Informer<LogicalVolume>, 'list' | 'whenSynced'>;
  readonly nodes: Pick<Informer<Node, object>, 'get' | 'whenSynced'>;
  readonly clock: Clock;
}

export type OrphanCounts = Readonly<Record<ObjectOrphanKind, number>>;

/** PersistentVolumes are listed this often, because a watch of all of them would cost memory for a metric only. */
const everyMs = 10 * 60_000;
/** A new leader has more urgent work. */
const firstMs = 60_000;

/** Counts orphans among the objects of the cluster, for the metric. It changes nothing. */
export class OrphanedObjects {
  readonly #collaborators: Collaborators;
  /** Undefined where they are not counted: only the leader does. */
  #counts: OrphanCounts | undefined;

  constructor(collaborators: Collaborators) {
    this.#collaborators = collaborators;
  }

  get metric(): Metric {
    return gauge({
      name: metrics.orphans,
      help: 'Objects of the cluster whose volume, node or owner is gone, by kind.',
      labelNames: ['kind'],
      read: () => Object.entries(this.#counts ?? {}).map(([kind, value]) => ({ labels: { kind }, value })),
    });
  }

  get work(): Work {
    return {
      name: 'orphaned-objects',
      watch: (queue) => {
        queue.addAfter('all', firstMs);
        return [
          () => {
            this.#counts = undefined;
          },
        ];
      },
      reconcile: async (_, signal) => {
        await this.#count(signal);
        return Requeue.after(everyMs);
      },
      concurrency: 1,
      leaderOnly: true,
    };
  }

  async #count(signal: AbortSignal): Promise<void> {
    const { client, volumes, nodes, clock } = this.#collaborators;
    await Promise.all([volumes.whenSynced(), nodes.whenSynced()]);
    const { items } = await client.list(persistentVolumes, { project: ourState, signal });
    const isNodeThere = (name: string) => nodes.get(name) !== undefined;
    const ours = new Map(items.filter((item) => item !== undefined));
    if (!signal.aborted) this.#counts = orphanCounts(volumes.list(), ours, isNodeThere, clock.now());
  }
}

/** The PersistentVolumes are by their volume handles. */
export function orphanCounts(
  volumes: readonly StoredLogicalVolume[],
  ours: ReadonlyMap<string, PersistentVolumeState>,
  isNodeThere: (name: string) => boolean,
  nowMs: number,
): OrphanCounts {
  const known = new Set(volumes.map(({ status }) => status?.volumeID));
  const kinds = [
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
  const counts = Object.fromEntries(objectOrphanKinds.map((kind) => [kind, 0])) as Record<ObjectOrphanKind, number>;
  for (const kind of kinds) if (kind) counts[kind] += 1;
  return counts;
}

function stateOf(volume: StoredLogicalVolume): VolumeState {
  return {
    createdAt: volume.metadata.creationTimestamp,
    volumeId: volume.status?.volumeID || undefined,
    isSnapshot: isSnapshot(volume),
    isDeleting: deleting(volume),
    isMissing: Boolean(volume.status?.missingFrom),
    failure: failureOf(volume)?.message,
  };
}

/** Undefined for a volume of another driver. */
function ourState({
  metadata,
  spec,
  status,
}: Stored<PersistentVolume>): readonly [string, PersistentVolumeState] | undefined {
  if (spec?.csi?.driver !== driverName) return undefined;
  const state = {
    createdAt: metadata.creationTimestamp,
    phase: status?.phase ?? '',
    isRetained: spec.persistentVolumeReclaimPolicy === 'Retain',
  };
  return [spec.csi.volumeHandle, state];
}
