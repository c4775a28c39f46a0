import { isEmptied, localPvAnnotations, localPvFinalizer, localPvOptions, localPvStatus } from '../api/local-pv.ts';
import { bytesOf } from '../api/logical-volume.ts';
import { nodeRemovedAnnotation } from '../api/names.ts';
import { orphanedStaticVolume } from '../api/orphans.ts';
import type { PersistentVolume, Stored } from '../kube/resource.ts';
import type { ClaimFacts, Facts } from './facts.ts';
import type { Orphan } from './orphans.ts';
import type { Health, VolumeRow } from './volumes.ts';

/** Of a static volume: a PersistentVolume with a local path that Moorage creates. */
export interface StaticVolumeFacts {
  readonly name: string;
  /** Empty until the controller has found it. */
  readonly node: string;
  /** The device class or the volume group; empty until the volume exists. */
  readonly place: string;
  readonly storageClass: string;
  readonly sizeBytes: bigint;
  readonly createdAt: string;
  readonly phase: string;
  readonly phaseSince: string | undefined;
  readonly claim: string | undefined;
  readonly isProcessed: boolean;
  readonly isDeleting: boolean;
  readonly isNodeGone: boolean;
  readonly isEmptied: boolean;
  /** Why the last attempt failed, and what to do. */
  readonly failure: string | undefined;
}

/** Undefined for other PersistentVolumes. Those that Moorage has refused have a status, but no finalizer. */
export function staticVolumeFacts({ metadata, spec, status }: Stored<PersistentVolume>): StaticVolumeFacts | undefined {
  const { annotations = {}, finalizers = [] } = metadata;
  const state = annotations[localPvAnnotations.status];
  const isOurs = finalizers.includes(localPvFinalizer) || state !== undefined;
  if (!spec?.local || !isOurs) return undefined;
  const { namespace, name } = spec.claimRef ?? {};
  const isProcessed = state === localPvStatus.processed;
  return {
    name: metadata.name,
    node: annotations[localPvAnnotations.node] ?? '',
    place: annotations[localPvOptions.deviceClass] ?? annotations[localPvOptions.vg] ?? '',
    storageClass: spec.storageClassName ?? '',
    // Until it is processed, the annotation is only a request, and may be anything.
    sizeBytes: bytesOf((isProcessed && annotations[localPvAnnotations.size]) || (spec.capacity?.['storage'] ?? 0)),
    createdAt: metadata.creationTimestamp,
    phase: status?.phase ?? '',
    phaseSince: status?.lastPhaseTransitionTime,
    claim: name ? `${namespace}/${name}` : undefined,
    isProcessed,
    isDeleting: metadata.deletionTimestamp !== undefined,
    isNodeGone: nodeRemovedAnnotation in annotations,
    isEmptied: isEmptied(annotations),
    failure: annotations[localPvAnnotations.message],
  };
}

export function staticVolumeRow(volume: StaticVolumeFacts, { users }: Pick<Facts, 'users'>): VolumeRow {
  const { name, node, place, storageClass, sizeBytes, createdAt } = volume;
  const [namespace, claim] = volume.claim?.split('/') ?? [];
  const pods = (volume.claim && users.get(volume.claim)) || [];
  const own = { name, pods, node, deviceClass: place, storageClass, sizeBytes, createdAt };
  return { ...own, ...(namespace && claim && { namespace, claim }), ...healthOf(volume) };
}

/** What matters most comes first. */
function healthOf(volume: StaticVolumeFacts): { readonly health: Health; readonly reason?: string } {
  if (volume.isNodeGone) return { health: 'NodeGone', reason: gone(volume) };
  if (volume.failure !== undefined) return { health: 'Failed', reason: volume.failure };
  if (volume.isDeleting) return { health: 'Deleting' };
  if (!volume.isProcessed) return { health: 'Creating' };
  if (volume.phase === 'Released') {
    const next = volume.isEmptied ? 'it is emptied and becomes available again' : 'its data is kept';
    return { health: 'Released', reason: `its claim ${volume.claim} was deleted, and ${next}` };
  }
  return { health: 'Healthy' };
}

function gone({ node }: StaticVolumeFacts): string {
  return `node ${node} is not in the cluster: return it with its disks, or give the volume up`;
}

/** Undefined also for one that has no node yet. */
export function staticVolumeOrphan(
  volume: StaticVolumeFacts,
  claims: ReadonlyMap<string, ClaimFacts>,
  nodeNames: ReadonlySet<string>,
): Orphan | undefined {
  const { name, node, sizeBytes, phase, phaseSince, createdAt, claim } = volume;
  const kind = node === '' ? undefined : orphanedStaticVolume(volume, nodeNames.has(node));
  if (!kind) return undefined;
  const [namespace, claimName] = claim?.split('/') ?? [];
  const isClaimed = phase === 'Bound' && claim !== undefined && claims.has(claim);
  const deletion = `kubectl delete pv ${name}`;
  return {
    ...{ kind, name, node, sizeBytes, ...(claim && { lastOwner: claim }) },
    since: (kind === 'Released' && phaseSince) || createdAt,
    reason: kind === 'NodeGone' ? gone(volume) : 'its claim was deleted, and its data is kept',
    ...(kind === 'Released' && { keep: `kubectl moorage reattach pv/${name}` }),
    remove: isClaimed ? `kubectl delete pvc -n ${namespace} ${claimName} && ${deletion}` : deletion,
  };
}
