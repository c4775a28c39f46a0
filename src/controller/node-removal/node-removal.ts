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
import { isConflict, isNotFound } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
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
import { type Belongings, type Claim, claimOf, ourVolume, planRemoval } from './plan.ts';

type Client = Pick<KubeClient, 'get' | 'list' | 'patch' | 'delete'>;

interface Collaborators {
  readonly client: Client;
  readonly log: Log;
  /** Lets a Node go at once, with all that was on it left as it is. */
  readonly onlyLetGo: boolean;
}

/** Whether a Node is being deleted and waits for us to let it go. */
export function isLeaving({ metadata }: Stored<Node>): boolean {
  return metadata.deletionTimestamp !== undefined && (metadata.finalizers ?? []).some(isOurFinalizer);
}

/**
 * Lets go of what was on a Node that is being deleted: its claims, then the pods that use them, then its LogicalVolumes,
 * and at last the Node itself. The claims go first, so that whoever replaces a pod makes a new claim for it as well. What
 * is on the disks of the node is not touched, and a node that is only not ready keeps everything.
 *
 * Every step can be repeated: what is done is not found again, and each write names the very object that was looked at.
 */
export class NodeRemoval {
  readonly #client: Client;
  readonly #log: Log;
  readonly #onlyLetGo: boolean;

  constructor({ client, log, onlyLetGo }: Collaborators) {
    this.#client = client;
    this.#log = log;
    this.#onlyLetGo = onlyLetGo;
  }

  async reconcile(nodeName: string, signal: AbortSignal): Promise<Requeue> {
    const node = await this.#client.get(nodes, nodeName, { signal });
    if (!node || !isLeaving(node)) return Requeue.never;
    if (!this.#onlyLetGo) await this.#clear(nodeName, signal);
    const { resourceVersion, finalizers = [] } = node.metadata;
    const left = finalizers.filter((finalizer) => !isOurFinalizer(finalizer));
    const body = { metadata: { resourceVersion, finalizers: left } };
    await this.#client.patch(nodes, nodeName, { type: 'merge', body }, { signal });
    this.#log.info({ node: nodeName }, 'node let go');
    return Requeue.never;
  }

  async #clear(nodeName: string, signal: AbortSignal): Promise<void> {
    const plan = planRemoval(nodeName, await this.#belongings(nodeName, signal));
    for (const claim of plan.claims) await this.#delete(persistentVolumeClaims, claim, signal);
    for (const pod of await this.#podsWith(plan.claims, nodeName, signal)) await this.#delete(pods, pod, signal);
    for (const volume of plan.logicalVolumes) await this.#letGo(volume, signal);
  }

  async #belongings(nodeName: string, signal: AbortSignal): Promise<Belongings> {
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

  /** On that node, or on none yet: a pod elsewhere that names such a claim has a new one by now. */
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
      this.#log.info({ kind: resource.kind, namespace, name }, 'deleted, as its node is being deleted');
    } catch (error) {
      if (!isConflict(error)) throw error; // another object has the name by now: this one is gone
    }
  }

  /** The mark keeps the node's agent, should it still run, from what is on the disks. */
  async #letGo({ metadata }: StoredLogicalVolume, signal: AbortSignal): Promise<void> {
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

interface Identity {
  readonly namespace?: string;
  readonly name: string;
  readonly uid: string;
}

function isOurFinalizer(finalizer: string): boolean {
  return finalizer === nodeFinalizer || finalizer === otherNodeFinalizer;
}

/** A claim that a pod has of its own is named after the pod and the volume. */
function claimNamesOf({ metadata, spec }: Stored<Pod>): readonly string[] {
  return (spec?.volumes ?? []).flatMap(({ name, persistentVolumeClaim, ephemeral }) => {
    if (persistentVolumeClaim) return [persistentVolumeClaim.claimName];
    return ephemeral ? [`${metadata.name}-${name}`] : [];
  });
}

/** A VolumeSnapshotContent, so far as we read it. */
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

/** The IDs of our snapshots that shall outlive the objects that name them; a cluster may know no snapshots at all. */
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
