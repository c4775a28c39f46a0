import { deleting, logicalVolumes, type StoredLogicalVolume } from '../../api/logical-volume.ts';
import {
  driverName,
  karpenterFinalizer,
  logicalVolume,
  nodeFinalizer,
  otherNodeFinalizer,
  parameters,
} from '../../api/names.ts';
import { Requeue } from '../../base/keyed-queue.ts';
import type { Work } from '../../base/work.ts';
import { isNotFound } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Informer } from '../../kube/informer.ts';
import {
  type Node,
  nodes,
  type ObjectMeta,
  persistentVolumeClaims,
  persistentVolumes,
  type Resource,
  type Stored,
  storageClasses,
} from '../../kube/resource.ts';
import { claimOf, type NodeObjects, ourVolume, planRemoval } from './plan.ts';
import { Release, type ReleaseCollaborators } from './release.ts';

interface Collaborators extends ReleaseCollaborators {
  /** Removes only the finalizer of a deleted Node, and leaves everything else. */
  readonly keepObjects: boolean;
}

/** Whether a Node is being deleted and has our finalizer. */
export function isLeaving({ metadata }: Stored<Node>): boolean {
  return metadata.deletionTimestamp !== undefined && (metadata.finalizers ?? []).some(isOurFinalizer);
}

/** Whether the machine of a Node is gone. Karpenter deletes a Node first and drains it then: until it is done, it is there. */
export function isGone(node: Stored<Node> | undefined): boolean {
  if (!node) return true;
  const { deletionTimestamp, finalizers = [] } = node.metadata;
  return deletionTimestamp !== undefined && !finalizers.includes(karpenterFinalizer);
}

/**
 * Cleans up after a Node that is being deleted: its claims, then the pods that use them, then its LogicalVolumes, and
 * finally our finalizer on the Node. Claims are deleted first, so that a controller that replaces a pod creates a new
 * claim too. Data on the disks of the node stays. A node that is only NotReady keeps everything, and so does one with the
 * taint out-of-service, which proves that its pods are stopped but not that it will never return.
 */
export class NodeRemoval {
  readonly #collaborators: Collaborators;

  constructor(collaborators: Collaborators) {
    this.#collaborators = collaborators;
  }

  async reconcile(nodeName: string, signal: AbortSignal): Promise<Requeue> {
    const { client, log, keepObjects } = this.#collaborators;
    const node = await client.get(nodes, nodeName, { signal });
    if (!node || !isLeaving(node) || !isGone(node)) return Requeue.never;
    const { uid } = node.metadata;
    if (!keepObjects) {
      while (await this.#release(nodeName, uid, signal)) log.debug({ node: nodeName }, 'released; looking for more');
    }
    const now = await client.get(nodes, nodeName, { signal }); // others write to it all the time
    if (now?.metadata.uid !== uid) return Requeue.never;
    const { resourceVersion, finalizers = [] } = now.metadata;
    const left = finalizers.filter((finalizer) => !isOurFinalizer(finalizer));
    const body = { metadata: { resourceVersion, finalizers: left } };
    await client.patch(nodes, nodeName, { type: 'merge', body }, { signal });
    log.info({ node: nodeName }, 'removed the finalizer from the node');
    await new Release(this.#collaborators, { name: nodeName, uid }, signal).reportEnd(keepObjects);
    return Requeue.never;
  }

  /**
   * A crash between any two steps loses nothing: what must be kept is recorded before the first claim is deleted. Returns
   * whether anything was released: then more may have come meanwhile, as the scheduler still uses a Node that is being deleted.
   */
  async #release(name: string, uid: string, signal: AbortSignal): Promise<boolean> {
    const plan = planRemoval(name, await this.#objects(name, signal));
    const { released, waiting, dropped, kept, staticVolumes } = plan;
    const release = new Release(this.#collaborators, { name, uid }, signal);
    await release.retain(released);
    await release.mark(kept, dropped);
    await release.markStatic(staticVolumes);
    await release.askForDecision(waiting);
    await release.deleteClaims(released);
    await release.deletePodsOf(released.map(({ claim }) => claim));
    await release.dropVolumes(dropped);
    const isHeld = (volume: StoredLogicalVolume) => volume.metadata.finalizers?.includes(logicalVolume.finalizer);
    return (
      released.some(({ claim }) => !claim.isDeleting) || dropped.some((volume) => !deleting(volume) || isHeld(volume))
    );
  }

  async #objects(nodeName: string, signal: AbortSignal): Promise<NodeObjects> {
    const { client } = this.#collaborators;
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
      ourStorageClasses: new Map(ours.map((each) => [each.metadata.name, each.parameters?.[parameters.onNodeRemoval]])),
      retainedSnapshots: snapshots,
    };
  }
}

interface WorkCollaborators {
  readonly nodes: Pick<Informer<Node, { readonly name: string; readonly isLeaving: boolean }>, 'onChange'>;
  readonly removal: Pick<NodeRemoval, 'reconcile'>;
  /** Whether the removal must wait, because it is not certain yet which volumes the node has. */
  readonly isHeld?: (nodeName: string) => boolean;
}

/** A move needs seconds to leave a node. */
const heldMs = 1_000;

/** Cleans up after Nodes that are being deleted. */
export function nodeRemovals({ nodes, removal, isHeld }: WorkCollaborators): Work {
  return {
    name: 'node-removals',
    watch: (queue) => [
      nodes.onChange(({ kind, object }) => {
        if (kind !== 'deleted' && object.isLeaving) queue.add(object.name);
      }),
    ],
    reconcile: async (name, signal) => (isHeld?.(name) ? Requeue.after(heldMs) : removal.reconcile(name, signal)),
    concurrency: 1,
    leaderOnly: true,
  };
}

function isOurFinalizer(finalizer: string): boolean {
  return finalizer === nodeFinalizer || finalizer === otherNodeFinalizer;
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
