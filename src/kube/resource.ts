import type {
  EventsV1Event,
  V1ConfigMap,
  V1CSIDriver,
  V1CSINode,
  V1CSIStorageCapacity,
  V1Deployment,
  V1Lease,
  V1MutatingWebhookConfiguration,
  V1Node,
  V1PersistentVolume,
  V1PersistentVolumeClaim,
  V1Pod,
  V1Secret,
  V1StatefulSet,
  V1StorageClass,
  V1SubjectAccessReview,
  V1TokenReview,
  V1ValidatingWebhookConfiguration,
} from '@kubernetes/client-node';
import type { KubeObject, Resource, Wire } from '../api/object.ts';

export type { KubeObject, ObjectMeta, Resource, Stored, Wire } from '../api/object.ts';

export type ConfigMap = Wire<V1ConfigMap>;
export type CsiDriver = Wire<V1CSIDriver>;
export type CsiNode = Wire<V1CSINode>;
export type CsiStorageCapacity = Wire<V1CSIStorageCapacity>;
export type Deployment = Wire<V1Deployment>;
export type Event = Wire<EventsV1Event>;
export type Lease = Wire<V1Lease>;
export type MutatingWebhookConfiguration = Wire<V1MutatingWebhookConfiguration>;
export type Node = Wire<V1Node>;
export type PersistentVolume = Wire<V1PersistentVolume>;
export type PersistentVolumeClaim = Wire<V1PersistentVolumeClaim>;
export type Pod = Wire<V1Pod>;
export type Secret = Wire<V1Secret>;
export type StatefulSet = Wire<V1StatefulSet>;
export type StorageClass = Wire<V1StorageClass>;
export type SubjectAccessReview = Wire<V1SubjectAccessReview>;
export type TokenReview = Wire<V1TokenReview>;
export type ValidatingWebhookConfiguration = Wire<V1ValidatingWebhookConfiguration>;

/** The fields that matter to us of a kind that is not part of Kubernetes itself. */
export interface VolumeSnapshot extends KubeObject {
  readonly spec?: {
    readonly source?: { readonly persistentVolumeClaimName?: string; readonly volumeSnapshotContentName?: string };
    readonly volumeSnapshotClassName?: string;
  };
  readonly status?: {
    readonly readyToUse?: boolean;
    readonly boundVolumeSnapshotContentName?: string;
    readonly error?: { readonly message?: string };
  };
}

export const nodes: Resource<Node> = {
  group: '',
  version: 'v1',
  plural: 'nodes',
  kind: 'Node',
  namespaced: false,
};
export const persistentVolumes: Resource<PersistentVolume> = {
  group: '',
  version: 'v1',
  plural: 'persistentvolumes',
  kind: 'PersistentVolume',
  namespaced: false,
};
export const persistentVolumeClaims: Resource<PersistentVolumeClaim> = {
  group: '',
  version: 'v1',
  plural: 'persistentvolumeclaims',
  kind: 'PersistentVolumeClaim',
  namespaced: true,
};
export const pods: Resource<Pod> = {
  group: '',
  version: 'v1',
  plural: 'pods',
  kind: 'Pod',
  namespaced: true,
};
export const configMaps: Resource<ConfigMap> = {
  group: '',
  version: 'v1',
  plural: 'configmaps',
  kind: 'ConfigMap',
  namespaced: true,
};
export const secrets: Resource<Secret> = {
  group: '',
  version: 'v1',
  plural: 'secrets',
  kind: 'Secret',
  namespaced: true,
};
export const statefulSets: Resource<StatefulSet> = {
  group: 'apps',
  version: 'v1',
  plural: 'statefulsets',
  kind: 'StatefulSet',
  namespaced: true,
};
export const deployments: Resource<Deployment> = {
  group: 'apps',
  version: 'v1',
  plural: 'deployments',
  kind: 'Deployment',
  namespaced: true,
};
export const storageClasses: Resource<StorageClass> = {
  group: 'storage.k8s.io',
  version: 'v1',
  plural: 'storageclasses',
  kind: 'StorageClass',
  namespaced: false,
};
export const volumeSnapshots: Resource<VolumeSnapshot> = {
  group: 'snapshot.storage.k8s.io',
  version: 'v1',
  plural: 'volumesnapshots',
  kind: 'VolumeSnapshot',
  namespaced: true,
};
export const csiDrivers: Resource<CsiDriver> = {
  group: 'storage.k8s.io',
  version: 'v1',
  plural: 'csidrivers',
  kind: 'CSIDriver',
  namespaced: false,
};
export const csiNodes: Resource<CsiNode> = {
  group: 'storage.k8s.io',
  version: 'v1',
  plural: 'csinodes',
  kind: 'CSINode',
  namespaced: false,
};
export const csiStorageCapacities: Resource<CsiStorageCapacity> = {
  group: 'storage.k8s.io',
  version: 'v1',
  plural: 'csistoragecapacities',
  kind: 'CSIStorageCapacity',
  namespaced: true,
};
export const events: Resource<Event> = {
  group: 'events.k8s.io',
  version: 'v1',
  plural: 'events',
  kind: 'Event',
  namespaced: true,
};
export const leases: Resource<Lease> = {
  group: 'coordination.k8s.io',
  version: 'v1',
  plural: 'leases',
  kind: 'Lease',
  namespaced: true,
};
export const mutatingWebhookConfigurations: Resource<MutatingWebhookConfiguration> = {
  group: 'admissionregistration.k8s.io',
  version: 'v1',
  plural: 'mutatingwebhookconfigurations',
  kind: 'MutatingWebhookConfiguration',
  namespaced: false,
};
export const validatingWebhookConfigurations: Resource<ValidatingWebhookConfiguration> = {
  group: 'admissionregistration.k8s.io',
  version: 'v1',
  plural: 'validatingwebhookconfigurations',
  kind: 'ValidatingWebhookConfiguration',
  namespaced: false,
};

export const subjectAccessReviews: Resource<SubjectAccessReview> = {
  group: 'authorization.k8s.io',
  version: 'v1',
  plural: 'subjectaccessreviews',
  kind: 'SubjectAccessReview',
  namespaced: false,
};
export const tokenReviews: Resource<TokenReview> = {
  group: 'authentication.k8s.io',
  version: 'v1',
  plural: 'tokenreviews',
  kind: 'TokenReview',
  namespaced: false,
};

/** The key of an object within its resource: `namespace/name`, or `name` if it is cluster-scoped. */
export function keyOf(object: KubeObject): string {
  const { namespace, name = '' } = object.metadata ?? {};
  return namespace ? `${namespace}/${name}` : name;
}

/** The path of a collection, over all namespaces if none is given. */
export function pathOf(resource: Resource<KubeObject>, namespace?: string): string {
  const root = resource.group === '' ? '/api' : `/apis/${resource.group}`;
  const within = resource.namespaced && namespace ? `/namespaces/${encodeURIComponent(namespace)}` : '';
  return `${root}/${resource.version}${within}/${resource.plural}`;
}

export function apiVersionOf(resource: Resource<KubeObject>): string {
  return resource.group === '' ? resource.version : `${resource.group}/${resource.version}`;
}

/** A time as in Leases and Events: microseconds, of which we only know the milliseconds. */
export function microTime(atMs: number): string {
  return new Date(atMs).toISOString().replace('Z', '000Z');
}

/** The values that the node affinity of a PersistentVolume allows for a label; undefined if it has none. */
export function affinityValues({ spec }: PersistentVolume, label: string): readonly string[] | undefined {
  return spec?.nodeAffinity?.required?.nodeSelectorTerms
    ?.flatMap(({ matchExpressions = [] }) => matchExpressions)
    .filter(({ key, operator }) => key === label && operator === 'In')
    .flatMap(({ values = [] }) => values);
}

/** The names of the claims that a pod uses. That of a generic ephemeral volume is named after the pod and the volume. */
export function claimNamesOf({ metadata, spec }: Pod): readonly string[] {
  return (spec?.volumes ?? []).flatMap(({ name, persistentVolumeClaim, ephemeral }) => {
    if (persistentVolumeClaim) return [persistentVolumeClaim.claimName];
    return ephemeral ? [`${metadata?.name}-${name}`] : [];
  });
}
