import { createHash } from 'node:crypto';
import { capacityManager, driverName, templateNodeLabel, topologyKey } from '../../api/names.ts';
import { toQuantity } from '../../base/quantity.ts';
import type { CsiStorageCapacity, Stored } from '../../kube/resource.ts';

/** Stands for every node that Cluster Autoscaler only imagines; not the name of a node. */
export const templateNode = '*';

/** The fields that we keep of a CSIStorageCapacity. */
export interface PublishedCapacity {
  readonly name: string;
  readonly uid: string;
  /** Empty if the object selects neither one node by our topology key, nor template nodes. */
  readonly nodeName: string;
  readonly storageClass: string;
  readonly capacity: string;
  readonly ownerUid: string | undefined;
}

export interface WantedCapacity {
  readonly nodeName: string;
  readonly storageClass: string;
  readonly freeBytes: bigint;
  /** The CSIDriver, which owns what we publish. */
  readonly ownerUid: string;
}

export type CapacityStep =
  | { readonly kind: 'create'; readonly wanted: WantedCapacity }
  | { readonly kind: 'update'; readonly name: string; readonly wanted: WantedCapacity }
  | { readonly kind: 'delete'; readonly object: PublishedCapacity }
  | { readonly kind: 'nothing' };

/**
 * The next step for one node and StorageClass, given all objects about them. Ours is written before others are deleted, so
 * that the scheduler always finds one: the csi-provisioner of an earlier installation leaves its own behind.
 */
export function nextCapacityStep(
  wanted: WantedCapacity | undefined,
  published: readonly PublishedCapacity[],
): CapacityStep {
  const name = wanted && capacityName(wanted);
  const own = published.find((object) => object.name === name);
  if (wanted && !own) return { kind: 'create', wanted };
  if (wanted && own && !isUpToDate(own, wanted)) return { kind: 'update', name: own.name, wanted };
  const stale = published.find((object) => object !== own);
  return stale ? { kind: 'delete', object: stale } : { kind: 'nothing' };
}

function isUpToDate(own: PublishedCapacity, wanted: WantedCapacity): boolean {
  return own.capacity === toQuantity(wanted.freeBytes) && own.ownerUid === wanted.ownerUid;
}

/** Derived from node and class, so that two replicas, or one that crashed, never create two objects. */
export function capacityName({ nodeName, storageClass }: Pick<WantedCapacity, 'nodeName' | 'storageClass'>): string {
  const hash = createHash('sha256').update(`${nodeName}/${storageClass}`).digest('hex');
  return `moorage-${hash.slice(0, 20)}`;
}

export function toCapacityObject(wanted: WantedCapacity, namespace: string): CsiStorageCapacity {
  return {
    metadata: {
      namespace,
      name: capacityName(wanted),
      labels: { 'csi.storage.k8s.io/drivername': driverName, 'csi.storage.k8s.io/managed-by': capacityManager },
      ownerReferences: ownedBy(wanted),
    },
    nodeTopology: {
      matchLabels:
        wanted.nodeName === templateNode ? { [templateNodeLabel]: 'true' } : { [topologyKey]: wanted.nodeName },
    },
    storageClassName: wanted.storageClass,
    capacity: toQuantity(wanted.freeBytes),
  };
}

/** The mutable fields of our objects. */
export function toCapacityPatch(wanted: WantedCapacity): object {
  return { metadata: { ownerReferences: ownedBy(wanted) }, capacity: toQuantity(wanted.freeBytes) };
}

export function publishedCapacity(object: Stored<CsiStorageCapacity>): PublishedCapacity {
  const { name, uid, ownerReferences } = object.metadata;
  const { matchLabels: labels = {} } = object.nodeTopology ?? {};
  return {
    name,
    uid,
    nodeName: labels[topologyKey] ?? (labels[templateNodeLabel] === 'true' ? templateNode : ''),
    storageClass: object.storageClassName,
    capacity: object.capacity ?? '',
    ownerUid: ownerReferences?.find(({ kind }) => kind === 'CSIDriver')?.uid,
  };
}

function ownedBy({ ownerUid }: WantedCapacity) {
  return [{ apiVersion: 'storage.k8s.io/v1', kind: 'CSIDriver', name: driverName, uid: ownerUid }];
}
