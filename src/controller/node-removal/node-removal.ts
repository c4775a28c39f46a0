import { logicalVolumes, type StoredLogicalVolume } from '../../api/logical-volume.ts';
import {
  driverName,
  logicalVolume,
  nodeFinalizer,
  otherNodeFinalizer,
  pendingDeletionAnnotation,
} from '../../api/names.ts';
import { Requeue } from '../../base/keyed-queue.ts';
import type { Log } from '../../base/log.ts';
import type { Work } from '../../base/work.ts';
import { isConflict, isNotFound } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Informer } from '../../kube/informer.ts';
import {
  type KubeObject,
  type Node,
  nodes,
  type ObjectMeta,
  type Pod,
  persistentVolumeClaims,
  persistentVolumes,
  pods,
  type Resource,
  type Stored,
  storageClasses,
} from '../../kube/resource.ts';
import { type Claim, claimOf, type NodeObjects, ourVolume, planRemoval } from './plan.ts';

type Client = Pick<KubeClient, 'get' | 'list' | 'patch' | 'delete'>;

interface Collaborators {
  readonly client: Client;
  readonly log: Log;
  /** Removes only the finalizer of a deleted Node, and leaves everything else. */
  readonly keepObjects: boolean;
}

/** Whether a Node is being deleted and has our finalizer. */
export function isLeaving({ metadata }: Stored<Node>): boolean {
  return metadata.deletionTimestamp !== undefined && (metadata.finalizers ?? []).some(isOurFinalizer);
}

/**
 * Cleans up after a Node that is being deleted: its claims, then the pods that use them, then its LogicalVolumes, and
 * finally our finalizer on the Node. Claims are deleted first, so that a controller that replaces a pod creates a new
 * claim too. Data on the disks of the node stays, and a node that is only NotReady keeps everything.
 *
 * Every step can be repeated: deleted objects are not found again, and each write has the uid of the object it read.
 */
export class NodeRemoval {
  readonly #client: Client;
  readonly #log: Log;
  readonly #keepObjects: boolean;

  constructor({ client, log, keepObjects }: Collaborators) {
    this.#client = client;
    this.#log = log;
    this.#keepObjects = keepObjects;
  }

  async reconcile(nodeName: string, signal: AbortSignal): Promise<Requeue> {
    const node = await this.#client.get(nodes, nodeName, { signal });
    if (!node || !isLeaving(node)) return Requeue.never;
    if (!this.#keepObjects) await this.#clear(nodeName, signal);
    const { resourceVersion, finalizers = [] } = node.metadata;
    const left = finalizers.filter((finalizer) => !isOurFinalizer(finalizer));
    const body = { metadata: { resourceVersion, finalizers: left } };
    await this.#client.patch(nodes, nodeName, { type: 'merge', body }, { signal });
    this.#log.info({ node: nodeName }, 'removed the finalizer from the node');
    return Requeue.never;
  }

  async #clear(nodeName: string, signal: AbortSignal): Promise<void> {
    const plan = planRemoval(nodeName, await this.#objects(nodeName, signal));
    for (const claim of plan.claims) await this.#delete(persistentVolumeClaims, claim, signal);
    for (const pod of await this.#podsWith(plan.claims, nodeName, signal)) await this.#delete(pods, pod, signal);
    for (const volume of plan.logicalVolumes) await this.#releaseVolume(volume, signal);
  }

  async #objects(nodeName: string, signal: AbortSignal): Promise<NodeObjects> {
    const client = this.#client;
    const fieldSelector = `spec.nodeName=${nodeName}`;
    const [volumes, persistent, claims, classes, snapshots] = await Promise.all([
      client.list(logicalVolumes, { fieldSelector, signal }),
      client.list(persistentVolumes, { project: ourVolume, signal }),
      client.list(persistentVolumeClaims, { project: claimOf, signal }),
      client.list(storageClasses, { signal }),
      retainedSnapshots(client, signal),
    ]);
    const ours = classes.items.filter(({ provisioner }) => provisioner === driverName);
    return {
      logicalVolumes: volumes.items,
      persistentVolumes: persistent.items.filter((volume) => volume !== undefined),
      claims: claims.items,
      ourStorageClasses: new Set(ours.map(({ metadata }) => metadata.name)),
      retainedSnapshots: snapshots,
    };
  }

  /** Pods on that node or not scheduled yet: a pod elsewhere with such a claim already has a new one. */
  async #podsWith(claims: readonly Claim[], nodeName: string, signal: AbortSignal): Promise<readonly Identity[]> {
    const users: Identity[] = [];
    for (const namespace of new Set(claims.map((claim) => claim.namespace))) {
      const names = new Set(claims.filter((claim) => claim.namespace === namespace).map(({ name }) => name));
      const { items } = await this.#client.list(pods, { namespace, signal });
      const usesOne = (pod: Stored<Pod>) => claimNamesOf(pod).some((name) => names.has(name));
      const isHere = ({ spec }: Stored<Pod>) => !spec?.nodeName || spec.nodeName === nodeName;
      for (const pod of items) {
        const { name, uid, deletionTimestamp } = pod.metadata;
        if (!deletionTimestamp && isHere(pod) && usesOne(pod)) users.push({ namespace, name, uid });
      }
    }
    return users;
  }

  async #delete<T extends KubeObject>(resource: Resource<T>, object: Identity, signal: AbortSignal): Promise<void> {
    const { namespace, name, uid } = object;
    try {
      await this.#client.delete(resource, name, { namespace, preconditions: { uid }, signal });
      this.#log.info({ kind: resource.kind, namespace, name }, 'deleted because its node is being deleted');
    } catch (error) {
      if (!isConflict(error)) throw error; // another object has the name now, so this one is gone
    }
  }

  /** The annotation keeps the node's agent, if it still runs, from touching the data. */
  async #releaseVolume({ metadata }: StoredLogicalVolume, signal: AbortSignal): Promise<void> {
    const { name, uid, resourceVersion, finalizers = [] } = metadata;
    const annotations = { [pendingDeletionAnnotation]: 'true' };
    const left = finalizers.filter((finalizer) => finalizer !== logicalVolume.finalizer);
    const body = { metadata: { uid, resourceVersion, annotations, finalizers: left } };
    try {
      await this.#client.patch(logicalVolumes, name, { type: 'merge', body }, { signal });
    } catch (error) {
      if (isNotFound(error)) return;
      throw error;
    }
    await this.#delete(logicalVolumes, { name, uid }, signal);
  }
}

interface WorkCollaborators {
  readonly nodes: Pick<Informer<Node, { readonly name: string; readonly isLeaving: boolean }>, 'onChange'>;
  readonly removal: Pick<NodeRemoval, 'reconcile'>;
}

/** Cleans up after Nodes that are being deleted. */
export function nodeRemovals({ nodes, removal }: WorkCollaborators): Work {
  return {
    name: 'node-removals',
    watch: (queue) => [
      nodes.onChange(({ kind, object }) => {
        if (kind !== 'deleted' && object.isLeaving) queue.add(object.name);
      }),
    ],
    reconcile: (name, signal) => removal.reconcile(name, signal),
    concurrency: 1,
    leaderOnly: true,
  };
}

interface Identity {
  readonly namespace?: string;
  readonly name: string;
  readonly uid: string;
}

function isOurFinalizer(finalizer: string): boolean {
  return finalizer === nodeFinalizer || finalizer === otherNodeFinalizer;
}

/** The claim of a generic ephemeral volume is named after the pod and the volume. */
function claimNamesOf({ metadata, spec }: Stored<Pod>): readonly string[] {
  return (spec?.volumes ?? []).flatMap(({ name, persistentVolumeClaim, ephemeral }) => {
    if (persistentVolumeClaim) return [persistentVolumeClaim.claimName];
    return ephemeral ? [`${metadata.name}-${name}`] : [];
  });
}

/** The fields of a VolumeSnapshotContent that we read. */
export interface SnapshotContent {
  readonly metadata?: ObjectMeta;
  readonly spec: {
    readonly driver: string;
    readonly deletionPolicy: 'Delete' | 'Retain';
    readonly source: { readonly snapshotHandle?: string };
  };
  readonly status?: { readonly snapshotHandle?: string };
}

export const snapshotContents: Resource<SnapshotContent> = {
  group: 'snapshot.storage.k8s.io',
  version: 'v1',
  plural: 'volumesnapshotcontents',
  kind: 'VolumeSnapshotContent',
  namespaced: false,
};

/** The IDs of our snapshots with deletion policy Retain; the snapshot CRDs may be missing. */
export async function retainedSnapshots(
  client: Pick<KubeClient, 'list'>,
  signal: AbortSignal,
): Promise<ReadonlySet<string>> {
  try {
    const { items } = await client.list(snapshotContents, { signal });
    const retained = items.filter(({ spec }) => spec.driver === driverName && spec.deletionPolicy === 'Retain');
    const handles = retained.map(({ spec, status }) => status?.snapshotHandle ?? spec.source.snapshotHandle);
    return new Set(handles.filter((handle) => handle !== undefined));
  } catch (error) {
    if (isNotFound(error)) return new Set();
    throw error;
  }
}
