import type {
  V1CustomResourceDefinition,
  V1DaemonSet,
  V1EndpointSlice,
  V1SelfSubjectReview,
  V1VolumeAttributesClass,
} from '@kubernetes/client-node';
import { type NodeStorage, nodeStorages } from '../../api/node-storage.ts';
import { MoorageError } from '../../base/errors.ts';
import { ApiError } from '../../kube/api-error.ts';
import type { KubeClient, Selection } from '../../kube/client.ts';
import {
  type CsiDriver,
  type CsiNode,
  type CsiStorageCapacity,
  csiDrivers,
  csiNodes,
  csiStorageCapacities,
  type Event,
  events,
  type KubeObject,
  type Lease,
  leases,
  type MutatingWebhookConfiguration,
  mutatingWebhookConfigurations,
  type Node,
  nodes,
  type Pod,
  pods,
  type Resource,
  type StorageClass,
  type Stored,
  storageClasses,
  type ValidatingWebhookConfiguration,
  validatingWebhookConfigurations,
  type Wire,
} from '../../kube/resource.ts';
import { type Facts, readFacts } from '../facts.ts';

export type DaemonSet = Wire<V1DaemonSet>;
export type CustomResourceDefinition = Wire<V1CustomResourceDefinition>;
export type WebhookConfiguration = MutatingWebhookConfiguration | ValidatingWebhookConfiguration;
export type EndpointSlice = Wire<V1EndpointSlice>;
export type VolumeAttributesClass = Wire<V1VolumeAttributesClass>;

/** What doctor judges. */
export interface Observed {
  readonly nodes: readonly Stored<Node>[];
  /** What the agents report. */
  readonly reports: readonly Stored<NodeStorage>[];
  /** The pods of Moorage, and of TopoLVM. */
  readonly pods: readonly Stored<Pod>[];
  readonly topolvmPods: readonly Stored<Pod>[];
  /** Those with agents. */
  readonly daemonSets: readonly Stored<DaemonSet>[];
  /** Warnings in the namespace of Moorage. */
  readonly warnings: readonly Stored<Event>[];
  /** In the namespace of Moorage. */
  readonly leases: readonly Stored<Lease>[];
  /** Which the kubelets renew. */
  readonly nodeLeases: readonly Stored<Lease>[];
  readonly csiDrivers: readonly Stored<CsiDriver>[];
  readonly csiNodes: readonly Stored<CsiNode>[];
  readonly capacities: readonly Stored<CsiStorageCapacity>[];
  readonly storageClasses: readonly Stored<StorageClass>[];
  readonly attributesClasses: readonly Stored<VolumeAttributesClass>[];
  readonly crds: readonly Stored<CustomResourceDefinition>[];
  readonly webhooks: readonly Stored<WebhookConfiguration>[];
  /** In the namespace of Moorage. */
  readonly endpointSlices: readonly Stored<EndpointSlice>[];
  readonly facts: Facts;
  /** On the clock of the API server. */
  readonly nowMs: number;
  /** Of the plugin. */
  readonly version: string;
}

/** `absent`: the cluster does not have the kind. */
export type Reading<T> =
  | { readonly kind: 'read'; readonly value: T }
  | { readonly kind: 'absent'; readonly reason: string }
  | Unknown;
interface Unknown {
  readonly kind: 'unknown';
  readonly reason: string;
}

export type Readings = { readonly [Key in keyof Omit<Observed, 'nowMs' | 'version'>]: Reading<Observed[Key]> };

export const moorageLabel = 'app.kubernetes.io/name=moorage';

/** Reads everything with the rights of the user, at once; what depends on the namespace of Moorage comes after its pods. */
export async function readInstallation(
  client: KubeClient,
  signal: AbortSignal,
): Promise<{ readonly readings: Readings; readonly nowMs: number }> {
  const list = <T extends KubeObject>(resource: Resource<T>, selection: Selection = {}) =>
    reading(resource.plural, async () => (await client.list(resource, { ...selection, signal })).items);
  const own = list(pods, { labelSelector: moorageLabel });
  const there = <T extends KubeObject>(resource: Resource<T>, selection: Selection = {}) =>
    own.then((found) => inNamespaces(found, (namespace) => list(resource, { ...selection, namespace })));
  const pending = {
    nodes: list(nodes),
    reports: list(nodeStorages),
    pods: own,
    topolvmPods: list(pods, { labelSelector: 'app.kubernetes.io/name=topolvm' }),
    daemonSets: list(daemonSets, { labelSelector: moorageLabel }),
    warnings: there(events, { fieldSelector: 'type=Warning' }),
    leases: there(leases),
    nodeLeases: list(leases, { namespace: 'kube-node-lease' }),
    csiDrivers: list(csiDrivers),
    csiNodes: list(csiNodes),
    capacities: list(csiStorageCapacities),
    storageClasses: list(storageClasses),
    attributesClasses: list(volumeAttributesClasses).then(orNone),
    crds: list(customResourceDefinitions),
    webhooks: Promise.all([
      list<WebhookConfiguration>(mutatingWebhookConfigurations),
      list<WebhookConfiguration>(validatingWebhookConfigurations),
    ]).then(joined),
    endpointSlices: there(endpointSlices),
    facts: reading('volumes', () => readFacts(client, { namespace: undefined, signal })),
  } satisfies { readonly [Key in keyof Readings]: Promise<Readings[Key]> };
  const [nowMs, ...read] = await Promise.all([
    serverTime(client, signal),
    ...Object.entries(pending).map(async ([key, promise]) => [key, await promise] as const),
  ]);
  return { readings: Object.fromEntries(read) as unknown as Readings, nowMs };
}

/** What the user may not read is unknown. Other errors end the command. */
async function reading<T>(what: string, read: () => Promise<T>): Promise<Reading<T>> {
  try {
    return { kind: 'read', value: await read() };
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.isNotFound) return { kind: 'absent', reason: `the cluster has no ${what}` };
    if (error.status === 403) return { kind: 'unknown', reason: `you may not list ${what}` };
    throw error;
  }
}

/** There is one namespace, unless somebody has installed Moorage twice. */
async function inNamespaces<T>(
  own: Reading<readonly Stored<Pod>[]>,
  read: (namespace: string | undefined) => Promise<Reading<readonly T[]>>,
): Promise<Reading<readonly T[]>> {
  if (own.kind !== 'read') return own;
  const namespaces = new Set(own.value.map(({ metadata }) => metadata.namespace));
  return joined(await Promise.all([...namespaces].map(read)));
}

function joined<T>(readings: readonly Reading<readonly T[]>[]): Reading<readonly T[]> {
  const missing = readings.find((each) => each.kind !== 'read');
  if (missing) return missing;
  return { kind: 'read', value: readings.flatMap((each) => (each.kind === 'read' ? each.value : [])) };
}

/** Older clusters do not have the kind, and so no such class. */
function orNone<T>(found: Reading<readonly T[]>): Reading<readonly T[]> {
  return found.kind === 'absent' ? { kind: 'read', value: [] } : found;
}

/** Everybody may ask who they are, and the answer has the server's time. */
async function serverTime(client: KubeClient, signal: AbortSignal): Promise<number> {
  const { metadata } = await client.create(selfSubjectReviews, {}, { signal });
  const nowMs = Date.parse(metadata.creationTimestamp);
  if (Number.isNaN(nowMs)) throw new NoServerTime('the API server did not tell its time in a SelfSubjectReview');
  return nowMs;
}

class NoServerTime extends MoorageError {
  readonly code = 'Internal';
}

const daemonSets: Resource<DaemonSet> = {
  group: 'apps',
  version: 'v1',
  plural: 'daemonsets',
  kind: 'DaemonSet',
  namespaced: true,
};
const customResourceDefinitions: Resource<CustomResourceDefinition> = {
  group: 'apiextensions.k8s.io',
  version: 'v1',
  plural: 'customresourcedefinitions',
  kind: 'CustomResourceDefinition',
  namespaced: false,
};
export const endpointSlices: Resource<EndpointSlice> = {
  group: 'discovery.k8s.io',
  version: 'v1',
  plural: 'endpointslices',
  kind: 'EndpointSlice',
  namespaced: true,
};
const volumeAttributesClasses: Resource<VolumeAttributesClass> = {
  group: 'storage.k8s.io',
  version: 'v1',
  plural: 'volumeattributesclasses',
  kind: 'VolumeAttributesClass',
  namespaced: false,
};
const selfSubjectReviews: Resource<Wire<V1SelfSubjectReview>> = {
  group: 'authentication.k8s.io',
  version: 'v1',
  plural: 'selfsubjectreviews',
  kind: 'SelfSubjectReview',
  namespaced: false,
};
