import { deleting, type LogicalVolume, type StoredLogicalVolume, volumeIdOf } from '../../api/logical-volume.ts';
import { neverUsedAnnotation, unclaimedAnnotation } from '../../api/names.ts';
import { Requeue } from '../../base/keyed-queue.ts';
import type { Log } from '../../base/log.ts';
import type { Work } from '../../base/work.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Informer } from '../../kube/informer.ts';
import type { PublishedVolumes } from '../../volumes/published-volumes.ts';
import { LogicalVolumeWriter } from './logical-volume-writer.ts';

interface Collaborators {
  readonly client: Pick<KubeClient, 'patch'>;
  /** Only the LogicalVolumes of this node. */
  readonly volumes: Pick<Informer<LogicalVolume>, 'get' | 'onChange'>;
  readonly published: Pick<PublishedVolumes, 'retireIfUnused'>;
  readonly log: Log;
}

/**
 * Answers when the controller asks whether a volume without a claim was ever used. Only a proof is an answer, and after it
 * the volume can never be used. Without one the volume stays, and a person decides.
 */
export function unclaimedVolumes({ client, volumes, published, log }: Collaborators): Work {
  const writer = new LogicalVolumeWriter(client);
  const watch: Work['watch'] = (queue) => [
    volumes.onChange(({ kind, key, object }) => {
      if (kind !== 'deleted' && isAsked(object)) queue.add(key);
    }),
  ];
  const reconcile = async (name: string, signal: AbortSignal): Promise<Requeue> => {
    const volume = volumes.get(name);
    if (!volume || !isAsked(volume)) return Requeue.never;
    const id = volumeIdOf(volume);
    if (await published.retireIfUnused(id, signal)) {
      log.info({ name, volume: id }, 'the volume has no claim and was never used; it cannot be used any more');
      await writer.annotate(volume, { [neverUsedAnnotation]: 'true' }, signal);
    } else {
      log.info({ name, volume: id }, 'the volume has no claim, and nothing proves that it was never used; it stays');
    }
    return Requeue.never;
  };
  return { name: 'unclaimed-volumes', watch, reconcile, concurrency: 1 };
}

function isAsked(volume: StoredLogicalVolume): boolean {
  const { annotations = {} } = volume.metadata;
  return unclaimedAnnotation in annotations && !(neverUsedAnnotation in annotations) && !deleting(volume);
}
