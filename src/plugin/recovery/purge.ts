import { type LogicalVolume, logicalVolumes } from '../../api/logical-volume.ts';
import {
  allowDeleteAnnotation,
  claimKey,
  driverName,
  logicalVolume,
  pendingDeletionAnnotation,
} from '../../api/names.ts';
import { MoorageError } from '../../base/errors.ts';
import type { KubeClient } from '../../kube/client.ts';
import {
  nodes,
  type PersistentVolume,
  persistentVolumeClaims,
  persistentVolumes,
  type Stored,
} from '../../kube/resource.ts';
import { claimOf, releasedFrom } from '../claim-ref.ts';
import { nodeOf, readLogicalVolumeOf } from '../facts.ts';
import { untilObject } from './writes.ts';

/** A volume that nobody uses, and what is lost with it. */
export interface Purgeable {
  readonly volume: Stored<PersistentVolume>;
  readonly object: Stored<LogicalVolume> | undefined;
  readonly nodeName: string;
  /** Its node is not in the cluster: the disks cannot be reached. */
  readonly isNodeGone: boolean;
}

export async function purgeable(
  client: KubeClient,
  volume: Stored<PersistentVolume>,
  signal: AbortSignal,
): Promise<Purgeable> {
  const { name } = volume.metadata;
  if (volume.spec?.csi?.driver !== driverName) {
    throw new CannotPurge(`PersistentVolume ${name} is not a volume of Moorage`);
  }
  const claim = claimOf(volume);
  const owner = claim && (await client.get(persistentVolumeClaims, claim.name, { namespace: claim.namespace, signal }));
  if (owner?.spec?.volumeName === name) {
    const key = `${claim?.namespace}/${claim?.name}`;
    throw new CannotPurge(`PersistentVolume ${name} is bound to claim ${key}; delete the claim first`);
  }
  const object = await readLogicalVolumeOf(client, volume, signal);
  const nodeName = nodeOf(volume) ?? object?.spec.nodeName;
  if (!nodeName) {
    throw new CannotPurge(
      `PersistentVolume ${name} names no node and has no LogicalVolume, so it is unknown where its data is; ` +
        `to remove only the object: kubectl delete pv ${name}`,
    );
  }
  return { volume, object, nodeName, isNodeGone: (await client.get(nodes, nodeName, { signal })) === undefined };
}

/** One sentence about what will be lost. */
export function loss({ volume, object, nodeName, isNodeGone }: Purgeable): string {
  const last = claimOf(volume);
  const claim = object?.metadata.annotations?.[claimKey] ?? (last && `${last.namespace}/${last.name}`);
  const size = object?.status?.currentSize ?? volume.spec?.capacity?.['storage'] ?? 'unknown size';
  const owner = claim ? `, last used by claim ${claim}` : '';
  const where = isNodeGone ? `node ${nodeName}, which is gone: its disks are not erased` : `node ${nodeName}`;
  return `volume ${volume.metadata.name} (${size}${owner}) on ${where}`;
}

/**
 * Lets csi-provisioner delete the volume, as for any claim: it does so for a PersistentVolume that is Released and has the
 * policy Delete. The claimRef makes an Available one Released, too.
 */
export async function purge(
  client: KubeClient,
  { volume, object, isNodeGone }: Purgeable,
  signal: AbortSignal,
): Promise<void> {
  const { name, resourceVersion } = volume.metadata;
  if (isNodeGone && object) await release(client, object, signal);
  const spec = { persistentVolumeReclaimPolicy: 'Delete', claimRef: releasedFrom(claimOf(volume), name) };
  const body = { metadata: { resourceVersion }, spec };
  await client.patch(persistentVolumes, name, { type: 'merge', body }, { signal });
  const late = new CannotPurge(
    `PersistentVolume ${name} has the policy Delete, and csi-provisioner has not removed it within a minute; ` +
      `see kubectl describe pv ${name}`,
  );
  const isWanted = (current: Stored<PersistentVolume> | undefined) => current === undefined;
  await untilObject(client, persistentVolumes, name, { isWanted, late }, signal);
}

/** Its agent is gone and cannot remove the finalizer. What is on the disks stays there. */
async function release(client: KubeClient, { metadata }: Stored<LogicalVolume>, signal: AbortSignal): Promise<void> {
  const { name, uid, resourceVersion, finalizers = [] } = metadata;
  const annotations = { [pendingDeletionAnnotation]: 'true', [allowDeleteAnnotation]: 'true' };
  const left = finalizers.filter((finalizer) => finalizer !== logicalVolume.finalizer);
  const body = { metadata: { resourceVersion, annotations, finalizers: left } };
  await client.patch(logicalVolumes, name, { type: 'merge', body }, { signal });
  await client.delete(logicalVolumes, name, { preconditions: { uid }, signal });
}

export class CannotPurge extends MoorageError {
  readonly code = 'FailedPrecondition';
}
