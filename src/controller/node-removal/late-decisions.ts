import {
  deleting,
  type LogicalVolume,
  logicalVolumes,
  type StoredLogicalVolume,
  volumeIdOf,
} from '../../api/logical-volume.ts';
import { claimKey, logicalVolume, nodeRemovedAnnotation } from '../../api/names.ts';
import { Requeue } from '../../base/keyed-queue.ts';
import type { Work } from '../../base/work.ts';
import type { Informer } from '../../kube/informer.ts';
import {
  type Node,
  nodes,
  type PersistentVolumeClaim,
  persistentVolumeClaims,
  persistentVolumes,
  type Stored,
} from '../../kube/resource.ts';
import { claimOf, decisionIn, ourVolume, type ReleasedClaim } from './plan.ts';
import { Release, type ReleaseCollaborators } from './release.ts';

/** A claim whose owner has decided what happens if its node is removed. */
export interface DecidedClaim {
  /** The PersistentVolume that it is bound to. */
  readonly volumeName: string;
}

/** Undefined for most claims, to save memory. */
export function decidedClaim(object: Stored<PersistentVolumeClaim>): DecidedClaim | undefined {
  const claim = claimOf(object);
  return decisionIn(claim) && claim.volumeName ? { volumeName: claim.volumeName } : undefined;
}

interface Collaborators extends ReleaseCollaborators {
  /** The LogicalVolumes of all nodes. */
  readonly volumes: Pick<Informer<LogicalVolume>, 'get' | 'list' | 'onChange'>;
  /** The claims of all namespaces. */
  readonly claims: Pick<Informer<PersistentVolumeClaim, { readonly decided: DecidedClaim | undefined }>, 'onChange'>;
  readonly nodes: Pick<Informer<Node, { readonly name: string }>, 'onChange'>;
}

/**
 * Does what people decide about volumes after their node was removed: a claim that waited gets the policy `drop` or
 * `keep`, or the LogicalVolume is deleted, by its claim or by hand, and its node cannot remove it.
 *
 * A missing Node alone decides nothing. The LogicalVolume must have the record of its node's removal, which an agent
 * withdraws once it finds the volume on its disks again, and a person must have acted on the claim or the volume itself.
 */
export function lateDecisions(collaborators: Collaborators): Work {
  const { client, volumes, claims, nodes: watchedNodes } = collaborators;
  const removed = () => volumes.list().filter(wasRemoved);
  const watch: Work['watch'] = (queue) => [
    volumes.onChange(({ kind, key, object }) => {
      if (kind !== 'deleted' && wasRemoved(object)) queue.add(key);
    }),
    claims.onChange(({ kind, key, object }) => {
      if (kind === 'deleted' || !object.decided) return;
      const { volumeName } = object.decided;
      const isIts = ({ metadata }: StoredLogicalVolume) =>
        metadata.name === volumeName || metadata.annotations?.[claimKey] === key;
      for (const { metadata } of removed().filter(isIts)) queue.add(metadata.name);
    }),
    watchedNodes.onChange(({ kind, object }) => {
      if (kind !== 'deleted') return;
      for (const { metadata, spec } of removed()) if (spec.nodeName === object.name) queue.add(metadata.name);
    }),
  ];

  const reconcile = async (name: string, signal: AbortSignal): Promise<Requeue> => {
    const known = volumes.get(name);
    if (!known || !wasRemoved(known)) return Requeue.never;
    const volume = await client.get(logicalVolumes, name, { signal }); // the record may just have been withdrawn
    if (!volume || !wasRemoved(volume)) return Requeue.never;
    const { nodeName } = volume.spec;
    if (!isGone(volume, await client.get(nodes, nodeName, { signal }))) return Requeue.never;

    const node = { name: nodeName, uid: volume.metadata.annotations?.[nodeRemovedAnnotation] ?? '' };
    const release = new Release(collaborators, node, signal);
    if (deleting(volume)) {
      if (volume.metadata.finalizers?.includes(logicalVolume.finalizer)) await release.dropVolumes([volume]);
      return Requeue.never;
    }
    const decided = await decisionAbout(volume, signal);
    if (!decided) return Requeue.never;
    const dropped = decided.policy === 'drop' && !decided.volume?.isRetained ? [volume] : [];
    await release.retain([decided]);
    await release.mark([], dropped);
    await release.deleteClaims([decided]);
    await release.deletePodsOf([decided.claim]);
    await release.dropVolumes(dropped);
    return Requeue.never;
  };

  const decisionAbout = async (
    volume: StoredLogicalVolume,
    signal: AbortSignal,
  ): Promise<ReleasedClaim | undefined> => {
    const stored = await persistentVolumeOf(volume, signal);
    const persistent = stored && ourVolume(stored);
    // As in the removal itself, the PersistentVolume decides where the volume is, not the node's status.
    if (!persistent?.nodeNames?.includes(volume.spec.nodeName) || persistent.handle !== volumeIdOf(volume))
      return undefined;
    const { namespace = '', name = '', uid } = stored?.spec?.claimRef ?? {};
    const found = name ? await client.get(persistentVolumeClaims, name, { namespace, signal }) : undefined;
    if (!found || found.metadata.uid !== uid) return undefined;
    const claim = claimOf(found);
    const policy = decisionIn(claim);
    return policy && { claim, policy, volume: persistent };
  };

  /** It has the same name, unless the volume has moved. */
  const persistentVolumeOf = async ({ metadata }: StoredLogicalVolume, signal: AbortSignal) => {
    const named = await client.get(persistentVolumes, metadata.name, { signal });
    if (named) return named;
    const [namespace = '', name = ''] = metadata.annotations?.[claimKey]?.split('/') ?? [];
    const claim = name ? await client.get(persistentVolumeClaims, name, { namespace, signal }) : undefined;
    const volumeName = claim?.spec?.volumeName;
    return volumeName ? client.get(persistentVolumes, volumeName, { signal }) : undefined;
  };

  return { name: 'late-decisions', watch, reconcile, concurrency: 1, leaderOnly: true };
}

function wasRemoved({ metadata }: StoredLogicalVolume): boolean {
  return metadata.annotations?.[nodeRemovedAnnotation] !== undefined;
}

/**
 * Whether the machine with the volume is gone: its Node does not exist or is being deleted, or a new machine has its name
 * and has reported that it does not have the volume.
 */
export function isGone({ metadata, status }: StoredLogicalVolume, node: Stored<Node> | undefined): boolean {
  if (!node) return true;
  const { uid, deletionTimestamp } = node.metadata;
  if (uid === metadata.annotations?.[nodeRemovedAnnotation]) return deletionTimestamp !== undefined;
  return status?.missingFrom === uid;
}
