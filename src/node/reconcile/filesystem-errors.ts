import { type LogicalVolume, volumeIdOf } from '../../api/logical-volume.ts';
import { filesystemErrorAnnotation } from '../../api/names.ts';
import { messageOf } from '../../base/errors.ts';
import { Requeue } from '../../base/keyed-queue.ts';
import type { Listeners } from '../../base/listeners.ts';
import type { Work, WorkQueue } from '../../base/work.ts';
import type { VolumeId } from '../../engine/pool.ts';
import type { KubeClient } from '../../kube/client.ts';
import { shortened } from '../../kube/events.ts';
import type { Informer } from '../../kube/informer.ts';
import { isPassing } from './logical-volume-reconciler.ts';
import { LogicalVolumeWriter } from './logical-volume-writer.ts';

/** An attempt to create, mount or grow the filesystem of a volume; without an error, it succeeded. */
export interface Preparation {
  readonly volumeId: VolumeId;
  readonly error?: unknown;
}

interface Collaborators {
  readonly client: Pick<KubeClient, 'patch'>;
  /** Only the LogicalVolumes of this node. */
  readonly volumes: Pick<Informer<LogicalVolume>, 'list' | 'onChange'>;
  readonly prepared: Pick<Listeners<Preparation>, 'add'>;
}

/** Leaves room in an Event, whose text is limited to 1024 bytes, for what the controller adds. */
const longestBytes = 900;

/**
 * Records on each LogicalVolume why its filesystem could not be used, until an attempt succeeds. The controller reports it
 * on the claim, which an agent may not do. Only a change is written: a filesystem without problems costs no write.
 */
export function filesystemErrors({ client, volumes, prepared }: Collaborators): Work {
  const writer = new LogicalVolumeWriter(client);
  /** The outcome of the latest attempt of this process; undefined if it succeeded. */
  const outcomes = new Map<VolumeId, string | undefined>();

  const watch = (queue: WorkQueue) => [
    prepared.add(({ volumeId, error }) => {
      if (error !== undefined && isPassing(error)) return; // it is retried, and proves nothing
      outcomes.set(volumeId, error === undefined ? undefined : shortened(messageOf(error), longestBytes));
      queue.add(volumeId);
    }),
    // The object may be known only after the attempt.
    volumes.onChange(({ kind, object }) => {
      const id = volumeIdOf(object);
      if (kind === 'deleted') outcomes.delete(id);
      else if (outcomes.has(id)) queue.add(id);
    }),
  ];

  const reconcile = async (id: VolumeId, signal: AbortSignal): Promise<Requeue> => {
    const volume = volumes.list().find((each) => volumeIdOf(each) === id);
    if (!volume || !outcomes.has(id)) return Requeue.never;
    const outcome = outcomes.get(id);
    if (volume.metadata.annotations?.[filesystemErrorAnnotation] !== outcome) {
      await writer.annotate(volume, { [filesystemErrorAnnotation]: outcome ?? null }, signal);
    }
    return Requeue.never;
  };

  return { name: 'filesystem-errors', watch, reconcile, concurrency: 4 };
}
