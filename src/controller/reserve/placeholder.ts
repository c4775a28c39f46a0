import { claimKey, driverName, reserve } from '../../api/names.ts';
import { effectiveRequests } from '../../explain/pod-requests.ts';
import { keyOf, type PersistentVolumeClaim, type Pod, type Stored } from '../../kube/resource.ts';

/** What the controller keeps of a placeholder. */
export interface WatchedPlaceholder {
  /** `namespace/name`. */
  readonly claim: string;
  readonly nodeName: string | undefined;
}

export function watchedPlaceholder({ metadata, status }: Stored<Pod>): WatchedPlaceholder {
  return { claim: claimOf({ metadata }), nodeName: status?.nominatedNodeName };
}

/** The claim that a placeholder is for, `namespace/name`. */
export function claimOf({ metadata }: Pick<Stored<Pod>, 'metadata'>): string {
  return metadata.annotations?.[claimKey] ?? '';
}

/** Derived from the claim, so that a leader that takes over never creates a second one. */
export function placeholderName({ metadata }: Stored<PersistentVolumeClaim>): string {
  return `reserve-${metadata.uid}`;
}

/**
 * A pod that takes as much of a node as the given one, and never runs: its gate is never removed. It is in Moorage's own
 * namespace, where it uses no quota that the pod itself needs, and is owned by the CSIDriver, so that it goes with Moorage.
 */
export function toPlaceholder(
  pod: Stored<Pod>,
  claim: Stored<PersistentVolumeClaim>,
  { namespace, ownerUid }: { readonly namespace: string; readonly ownerUid: string },
): Pod {
  const { priorityClassName, schedulerName } = pod.spec ?? {};
  const requests = effectiveRequests(pod);
  return {
    metadata: {
      name: placeholderName(claim),
      namespace,
      labels: { [reserve.label]: 'true' },
      annotations: { [claimKey]: keyOf(claim) },
      ownerReferences: [{ apiVersion: 'storage.k8s.io/v1', kind: 'CSIDriver', name: driverName, uid: ownerUid }],
    },
    spec: {
      schedulingGates: [{ name: reserve.gate }],
      ...(priorityClassName !== undefined && { priorityClassName }),
      ...(schedulerName !== undefined && { schedulerName }),
      automountServiceAccountToken: false,
      // Some resources must have a limit that is equal to the request.
      containers: [{ name: 'never-runs', image: 'never-runs', resources: { requests, limits: requests } }],
    },
  };
}
