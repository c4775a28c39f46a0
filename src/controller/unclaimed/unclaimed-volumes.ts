import { type LogicalVolume, logicalVolumes, type StoredLogicalVolume } from '../../api/logical-volume.ts';
import { neverUsedAnnotation, unclaimedAnnotation } from '../../api/names.ts';
import { orphanAfterMs } from '../../api/orphans.ts';
import type { Clock } from '../../base/clock.ts';
import { Requeue } from '../../base/keyed-queue.ts';
import type { Log } from '../../base/log.ts';
import type { Work } from '../../base/work.ts';
import { isConflict, isNotFound } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Informer } from '../../kube/informer.ts';
import { type PersistentVolume, persistentVolumeClaims, persistentVolumes } from '../../kube/resource.ts';
import type { OurPersistentVolume } from '../orphaned-objects.ts';
import { claimOf, isAsked, mayBeUnclaimed, nextStep } from './plan.ts';

interface Collaborators {
  readonly client: Pick<KubeClient, 'get' | 'list' | 'patch' | 'delete'>;
  /** The LogicalVolumes of all nodes. */
  readonly volumes: Pick<Informer<LogicalVolume>, 'get' | 'onChange'>;
  readonly persistentVolumes: Pick<
    Informer<PersistentVolume, OurPersistentVolume>,
    'get' | 'list' | 'onChange' | 'whenSynced'
  >;
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * Deletes the volume of a claim that vanished while the volume was created, if the volume was never used. Nothing refers to
 * it, so nobody else would ever delete it.
 *
 * The controller asks by an annotation. The node, which alone sees the disk, answers by another one if it can prove that the
 * volume was never used, and refuses to use it from then on: so nothing is lost, whatever happens until the object is
 * deleted. A volume without the proof stays, and is reported as Unclaimed.
 */
export function unclaimedVolumes(collaborators: Collaborators): Work {
  const { client, volumes, clock, log } = collaborators;
  const watchedPvs = collaborators.persistentVolumes;
  /** When each volume was first seen with neither object, by uid. The annotation records it for the next leader. */
  const firstSeen = new Map<string, number>();
  const asked = new Set<string>();

  const watch: Work['watch'] = (queue) => [
    volumes.onChange(({ kind, key, object }) => {
      const isCandidate = kind !== 'deleted' && mayBeUnclaimed(object);
      if (isCandidate && isAsked(object)) asked.add(key);
      else asked.delete(key);
      if (isCandidate) queue.add(key);
      else firstSeen.delete(object.metadata.uid);
    }),
    watchedPvs.onChange(({ kind, object }) => {
      if (kind !== 'added') return;
      for (const name of asked) if (volumes.get(name)?.status?.volumeID === object.handle) queue.add(name);
    }),
  ];

  const reconcile = async (name: string, signal: AbortSignal): Promise<Requeue> => {
    await watchedPvs.whenSynced(signal);
    const volume = volumes.get(name);
    if (!volume || !mayBeUnclaimed(volume)) return Requeue.never;
    const { uid, creationTimestamp } = volume.metadata;
    const hasPersistentVolume =
      watchedPvs.get(name) !== undefined || watchedPvs.list().some(({ handle }) => handle === uid);
    const youngMs = Date.parse(creationTimestamp) + orphanAfterMs - clock.now();
    if (!hasPersistentVolume && youngMs > 0) return Requeue.after(youngMs); // new volumes cost no request
    const hasClaim = !hasPersistentVolume && (await isClaimThere(volume, signal));
    if (hasPersistentVolume || hasClaim) firstSeen.delete(uid);
    else firstSeen.set(uid, recordedTime(volume) ?? firstSeen.get(uid) ?? clock.now());
    const sinceMs = firstSeen.get(uid) ?? clock.now();
    const step = nextStep(volume, { hasPersistentVolume, hasClaim, sinceMs, nowMs: clock.now() });
    switch (step.kind) {
      case 'wait':
        return Requeue.after(step.ms);
      case 'ask':
        await annotate(volume, { [unclaimedAnnotation]: new Date(sinceMs).toISOString() }, signal);
        break;
      case 'withdraw':
        await annotate(volume, { [unclaimedAnnotation]: null, [neverUsedAnnotation]: null }, signal);
        break;
      case 'delete':
        await remove(volume, signal);
        break;
      case 'nothing':
        break;
    }
    return Requeue.never;
  };

  /** A newer claim of the same name has another uid, and another volume. */
  const isClaimThere = async (volume: StoredLogicalVolume, signal: AbortSignal): Promise<boolean> => {
    const { namespace, name = '', uid } = claimOf(volume) ?? {};
    const found = await client.get(persistentVolumeClaims, name, { namespace, signal });
    return found?.metadata.uid === uid;
  };

  const annotate = async (
    { metadata }: StoredLogicalVolume,
    annotations: Readonly<Record<string, string | null>>,
    signal: AbortSignal,
  ): Promise<void> => {
    const { name, uid, resourceVersion } = metadata;
    const body = { metadata: { uid, resourceVersion, annotations } };
    await client.patch(logicalVolumes, name, { type: 'merge', body }, { signal }).catch(unlessChanged);
  };

  /** The claim was just read from the API server, and the LogicalVolume must be as it was seen. */
  const remove = async (volume: StoredLogicalVolume, signal: AbortSignal): Promise<void> => {
    const { name, uid, resourceVersion } = volume.metadata;
    const project = ({ metadata, spec }: { metadata: { name: string }; spec?: PersistentVolume['spec'] }) =>
      metadata.name === name || spec?.csi?.volumeHandle === uid;
    const { items } = await client.list(persistentVolumes, { project, signal }); // the watch may be behind
    if (items.includes(true)) return;
    try {
      await client.delete(logicalVolumes, name, { preconditions: { uid, resourceVersion }, signal });
      log.info({ name, node: volume.spec.nodeName }, 'deleted because its claim is gone and its volume was never used');
    } catch (error) {
      unlessChanged(error);
    }
  };

  return { name: 'unclaimed-volumes', watch, reconcile, concurrency: 1, leaderOnly: true };
}

/** When an earlier leader first saw it. */
function recordedTime({ metadata }: StoredLogicalVolume): number | undefined {
  const timeMs = Date.parse(metadata.annotations?.[unclaimedAnnotation] ?? '');
  return Number.isNaN(timeMs) ? undefined : timeMs;
}

/** The watch will report what has changed. */
function unlessChanged(error: unknown): void {
  if (!isConflict(error) && !isNotFound(error)) throw error;
}
