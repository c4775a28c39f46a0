import { logicalVolumes } from '../api/logical-volume.ts';
import { driverName, reserve } from '../api/names.ts';
import { volumeMoves } from '../api/volume-move.ts';
import { Informer } from '../kube/informer.ts';
import {
  configMaps,
  csiDrivers,
  csiNodes,
  csiStorageCapacities,
  leases,
  type Node,
  nodes,
  type PersistentVolume,
  persistentVolumeClaims,
  persistentVolumes,
  pods,
  type Stored,
  statefulSets,
  storageClasses,
} from '../kube/resource.ts';
import { claimingSet } from '../kube/stateful-set.ts';
import { annotatedNode } from './capacity/annotated-capacities.ts';
import { publishedCapacity } from './capacity/plan.ts';
import { registeredNode, scheduledClass, trackingDriver } from './capacity/storage-capacities.ts';
import { watchedClaim } from './claims/volume-claims.ts';
import type { ControllerCollaborators, ControllerOptions } from './controller-process.ts';
import { isDraining, podOnNode, scheduled, type VolumeOnDrain, volumeOnDrain } from './drain/drained-objects.ts';
import { type MaybeStatic, ourStaticVolume } from './local-pv/static-volumes.ts';
import { unscheduled, waitingPod } from './node-removal/stranded-pods.ts';
import { type OurPersistentVolume, ourPersistentVolume } from './orphaned-objects.ts';
import { watchedPlaceholder } from './reserve/placeholder.ts';
import { type ClaimName, scalableClaimOf } from './tombstones/scale-down.ts';

/** What the controller keeps of a PersistentVolume. */
interface WatchedVolume extends OurPersistentVolume, MaybeStatic {
  readonly scalable?: ClaimName;
  readonly onDrain?: VolumeOnDrain;
}

/** The controller's caches of cluster objects, by resource name, for metrics and health. */
export function sharedWatches(options: ControllerOptions, collaborators: ControllerCollaborators) {
  const { localPv, localPvMountBase: mountBase, evictionWebhook } = options;
  /** Labels are many, and only static volumes need them. */
  const watchedNode = (node: Stored<Node>) => {
    const { uid, labels = {} } = node.metadata;
    const isReady = node.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True');
    return { ...annotatedNode(node), uid, labels: localPv ? labels : {}, isReady, isDraining: isDraining(node) };
  };
  const watchedVolume = (volume: Stored<PersistentVolume>): WatchedVolume => {
    const asStatic = localPv ? ourStaticVolume(volume, mountBase) : undefined;
    const scalable = scalableClaimOf(volume);
    const onDrain = evictionWebhook ? volumeOnDrain(volume) : undefined;
    const watched: WatchedVolume = asStatic ? { handle: '', asStatic } : ourPersistentVolume(volume);
    return scalable || onDrain ? { ...watched, ...(scalable && { scalable }), ...(onDrain && { onDrain }) } : watched;
  };
  return {
    nodes: new Informer({ ...collaborators, resource: nodes, project: watchedNode }),
    persistentvolumes: new Informer({ ...collaborators, resource: persistentVolumes, project: watchedVolume }),
  };
}

/** The ConfigMap with the defaults for static volumes; none if it has no name. */
export function defaultsWatch(options: ControllerOptions, collaborators: ControllerCollaborators) {
  const { localPv, localPvDefaults: name, leaderElectionNamespace: namespace } = options;
  if (!localPv || name === '') return {};
  const selection = { namespace, fieldSelector: `metadata.name=${name}` };
  return { configmaps: new Informer({ ...collaborators, resource: configMaps, ...selection }) };
}

/** What only CSI needs. */
export function csiWatches(options: ControllerOptions, collaborators: ControllerCollaborators) {
  const { leaderElectionNamespace: namespace, skipNodeFinalize } = options;
  return {
    runningpods: new Informer({ ...collaborators, resource: pods, fieldSelector: scheduled, project: podOnNode }),
    pods: new Informer({ ...collaborators, resource: pods, fieldSelector: unscheduled, project: waitingPod }),
    placeholders: new Informer({
      ...collaborators,
      resource: pods,
      namespace,
      labelSelector: reserve.label,
      project: watchedPlaceholder,
    }),
    scheduler: new Informer({
      ...collaborators,
      resource: leases,
      namespace: 'kube-system',
      fieldSelector: 'metadata.name=kube-scheduler',
      project: ({ spec }) => spec?.holderIdentity ?? '',
    }),
    ...(!skipNodeFinalize && {
      statefulsets: new Informer({ ...collaborators, resource: statefulSets, project: claimingSet }),
    }),
    logicalvolumes: new Informer({ ...collaborators, resource: logicalVolumes }),
    volumemoves: new Informer({ ...collaborators, resource: volumeMoves }),
    persistentvolumeclaims: new Informer({ ...collaborators, resource: persistentVolumeClaims, project: watchedClaim }),
    csinodes: new Informer({ ...collaborators, resource: csiNodes, project: registeredNode }),
    storageclasses: new Informer({ ...collaborators, resource: storageClasses, project: scheduledClass }),
    csidrivers: new Informer({
      ...collaborators,
      resource: csiDrivers,
      fieldSelector: `metadata.name=${driverName}`,
      project: trackingDriver,
    }),
    csistoragecapacities: new Informer({
      ...collaborators,
      resource: csiStorageCapacities,
      namespace,
      labelSelector: `csi.storage.k8s.io/drivername=${driverName}`,
      project: publishedCapacity,
    }),
  };
}
