import { localPvOptions } from '../../api/local-pv.ts';
import { logicalVolumes, type StoredLogicalVolume } from '../../api/logical-volume.ts';
import { logicalVolume, nodeRemovedAnnotation, onNodeRemoval, pendingDeletionAnnotation } from '../../api/names.ts';
import { MoorageError } from '../../base/errors.ts';
import { isConflict, isNotFound } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import { type About, type EventContent, type Reporting, report } from '../../kube/events.ts';
import {
  claimNamesOf,
  type KubeObject,
  nodes,
  type Pod,
  persistentVolumeClaims,
  persistentVolumes,
  pods,
  type Resource,
  type Stored,
} from '../../kube/resource.ts';
import { type Claim, type OurVolume, ourVolume, type ReleasedClaim, type WaitingClaim } from './plan.ts';

export interface ReleaseCollaborators extends Reporting {
  readonly client: Pick<KubeClient, 'create' | 'get' | 'list' | 'patch' | 'delete'>;
}

/** A node that was removed, or is being removed. */
export interface RemovedNode {
  readonly name: string;
  readonly uid: string;
}

/**
 * The steps that release the claims and volumes of one removed node, each with Events that report it. Every step can be
 * repeated: deleted objects are not found again, and each write has the uid of the object it read.
 */
export class Release {
  readonly #client: ReleaseCollaborators['client'];
  readonly #collaborators: ReleaseCollaborators;
  readonly #node: RemovedNode;
  readonly #signal: AbortSignal;

  constructor(collaborators: ReleaseCollaborators, node: RemovedNode, signal: AbortSignal) {
    this.#client = collaborators.client;
    this.#collaborators = collaborators;
    this.#node = node;
    this.#signal = signal;
  }

  /** Before their claims are deleted. Each is read again, because its data depends on it. */
  async retain(released: readonly ReleasedClaim[]): Promise<void> {
    const signal = this.#signal;
    const retained = released.flatMap(({ claim, policy, volume }) =>
      policy === 'keep' && volume && !volume.isRetained ? [{ claim, ...volume }] : [],
    );
    const names = retained.map(({ name }) => name);
    await this.#reportOnNode('VolumesRetained', 'retaining PersistentVolumes', names);
    for (const { claim, name, uid, handle } of retained) {
      const isStatic = handle === undefined;
      const body = isStatic
        ? { metadata: { uid, annotations: { [localPvOptions.autoRelease]: 'false' } } }
        : { metadata: { uid }, spec: { persistentVolumeReclaimPolicy: 'Retain' } };
      await this.#client.patch(persistentVolumes, name, { type: 'merge', body }, { signal });
      const stored = await this.#client.get(persistentVolumes, name, { signal });
      if (stored?.metadata.uid !== uid || !ourVolume(stored)?.isRetained) throw new NotRetained(name);
      const how = isStatic ? `autoRelease of PersistentVolume ${name} to false` : `PersistentVolume ${name} to Retain`;
      const message = `set ${how} because node ${this.#node.name} was removed`;
      await this.#report(aboutClaim(claim), { type: 'Normal', reason: 'VolumeRetained', action: 'Releasing', message });
    }
  }

  /**
   * Marks LogicalVolumes before the first claim is deleted. Those that stay record that their node was removed on purpose:
   * only then may a person decide later. The annotation of the others keeps an agent that still runs from removing the data.
   */
  async mark(kept: readonly StoredLogicalVolume[], dropped: readonly StoredLogicalVolume[]): Promise<void> {
    await this.#reportOnNode('VolumesKept', 'keeping LogicalVolumes', namesOf(kept));
    const removedFrom = { [nodeRemovedAnnotation]: this.#node.uid, [pendingDeletionAnnotation]: null };
    for (const volume of kept) await this.#annotate(volume, removedFrom);
    for (const volume of dropped) await this.#annotate(volume, { [pendingDeletionAnnotation]: 'true' });
  }

  /** Records on static volumes that their node was removed on purpose, as on LogicalVolumes that stay. */
  async markStatic(volumes: readonly OurVolume[]): Promise<void> {
    const names = volumes.map(({ name }) => name);
    await this.#reportOnNode('VolumesKept', 'keeping the PersistentVolumes of static volumes', names);
    for (const { name, uid } of volumes) {
      const body = { metadata: { uid, annotations: { [nodeRemovedAnnotation]: this.#node.uid } } };
      await this.#client
        .patch(persistentVolumes, name, { type: 'merge', body }, { signal: this.#signal })
        .catch(unlessNotFound);
    }
  }

  async deleteClaims(released: readonly ReleasedClaim[]): Promise<void> {
    const remaining = released.filter(({ claim }) => !claim.isDeleting);
    const keys = remaining.map(({ claim }) => keyOf(claim));
    await this.#reportOnNode('ClaimsReleased', 'deleting claims', keys);
    for (const { claim, policy, volume } of remaining) {
      const { namespace, name, uid, resourceVersion } = claim;
      const message = `deleting this claim because node ${this.#node.name} was removed${fateOf(policy, volume)}`;
      await this.#report(aboutClaim(claim), { type: 'Warning', reason: 'NodeRemoved', action: 'Releasing', message });
      // A claim that has changed is read and decided about again: its owner may have set another policy.
      const preconditions = { uid, resourceVersion };
      await this.#client.delete(persistentVolumeClaims, name, { namespace, preconditions, signal: this.#signal });
      this.#collaborators.log.info(
        { namespace, name, node: this.#node.name },
        'deleted a claim because its node was removed',
      );
    }
  }

  /** Pods on that node or not scheduled yet: a pod elsewhere with such a claim already has a new one. */
  async deletePodsOf(claims: readonly Claim[]): Promise<void> {
    const users: Stored<Pod>[] = [];
    for (const namespace of new Set(claims.map((claim) => claim.namespace))) {
      const names = new Set(claims.filter((claim) => claim.namespace === namespace).map(({ name }) => name));
      const { items } = await this.#client.list(pods, { namespace, signal: this.#signal });
      const usesOne = (pod: Stored<Pod>) => claimNamesOf(pod).some((name) => names.has(name));
      const isHere = ({ spec }: Stored<Pod>) => !spec?.nodeName || spec.nodeName === this.#node.name;
      users.push(...items.filter((pod) => !pod.metadata.deletionTimestamp && isHere(pod) && usesOne(pod)));
    }
    await this.#reportOnNode('PodsDeleted', 'deleting pods', namesOf(users));
    for (const { metadata } of users) {
      const { namespace, name, uid } = metadata;
      const message = `deleting this pod because its claim was deleted with node ${this.#node.name}`;
      const about = { resource: pods, namespace, name, uid };
      await this.#report(about, { type: 'Warning', reason: 'NodeRemoved', action: 'Releasing', message });
      await this.#delete(pods, { namespace, name, uid });
    }
  }

  /** Deletes the objects in place of the node; the data stays on its disks. */
  async dropVolumes(dropped: readonly StoredLogicalVolume[]): Promise<void> {
    await this.#reportOnNode('VolumesGivenUp', 'deleting LogicalVolumes', namesOf(dropped));
    for (const { metadata } of dropped) await giveUpVolume(this.#client, metadata, this.#signal);
  }

  /** Tells the owners of claims that stay what they can do. */
  async askForDecision(waiting: readonly WaitingClaim[]): Promise<void> {
    const { annotation, policies } = onNodeRemoval;
    for (const { claim, invalid } of waiting) {
      const why = invalid === undefined ? '' : `${annotation} is ${JSON.stringify(invalid)}, not ${orList(policies)}; `;
      const message =
        `${why}this claim waits because node ${this.#node.name} with its volume was removed; ` +
        `bring the machine back, or set the annotation ${annotation} to drop or keep`;
      const reason = invalid === undefined ? 'DecisionNeeded' : 'InvalidPolicy';
      await this.#report(aboutClaim(claim), { type: 'Warning', reason, action: 'Waiting', message });
    }
    const keys = waiting.map(({ claim }) => keyOf(claim));
    await this.#reportOnNode('ClaimsWaiting', 'waiting for a decision about claims', keys);
  }

  /** The Node is free to go: our finalizer was the last step. */
  async reportEnd(keepObjects: boolean): Promise<void> {
    const fate = keepObjects
      ? 'claims, pods and LogicalVolumes of this node are left as they are'
      : 'it has nothing left to do for this node';
    const message = `Moorage has removed its finalizer: ${fate}`;
    const about = { resource: nodes, ...this.#node };
    await this.#report(about, { type: 'Normal', reason: 'NodeReleased', action: 'Releasing', message });
  }

  async #annotate({ metadata }: StoredLogicalVolume, wanted: Record<string, string | null>): Promise<void> {
    const { name, uid, annotations = {} } = metadata;
    if (Object.entries(wanted).every(([key, value]) => (annotations[key] ?? null) === value)) return;
    const body = { metadata: { uid, annotations: wanted } };
    await this.#client
      .patch(logicalVolumes, name, { type: 'merge', body }, { signal: this.#signal })
      .catch(unlessNotFound);
  }

  async #delete<T extends KubeObject>(resource: Resource<T>, object: Identity): Promise<void> {
    const { namespace, name, uid } = object;
    try {
      await this.#client.delete(resource, name, { namespace, preconditions: { uid }, signal: this.#signal });
      const kind = resource.kind;
      this.#collaborators.log.info(
        { kind, namespace, name, node: this.#node.name },
        'deleted because its node was removed',
      );
    } catch (error) {
      if (!isConflict(error)) throw error; // another object has the name now, so this one is gone
    }
  }

  async #reportOnNode(reason: string, what: string, names: readonly string[]): Promise<void> {
    if (names.length === 0) return;
    const about = { resource: nodes, ...this.#node };
    const message = `${what} because the node was removed: ${names.join(', ')}`;
    await this.#report(about, { type: 'Normal', reason, action: 'Releasing', message });
  }

  async #report(about: About, event: EventContent): Promise<void> {
    await report(this.#collaborators, about, event, this.#signal);
  }
}

/** Deletes a LogicalVolume in place of its node; the disks are not touched. */
export async function giveUpVolume(
  client: Pick<KubeClient, 'get' | 'patch' | 'delete'>,
  { name, uid }: { readonly name: string; readonly uid: string },
  signal: AbortSignal,
): Promise<void> {
  // Others may have changed it since: csi-provisioner has it deleted once its claim is gone.
  const volume = await client.get(logicalVolumes, name, { signal });
  if (volume?.metadata.uid !== uid) return;
  const { resourceVersion, finalizers = [] } = volume.metadata;
  const annotations = { [pendingDeletionAnnotation]: 'true' };
  const left = finalizers.filter((finalizer) => finalizer !== logicalVolume.finalizer);
  const body = { metadata: { uid, resourceVersion, annotations, finalizers: left } };
  await client.patch(logicalVolumes, name, { type: 'merge', body }, { signal }).catch(unlessNotFound);
  await client.delete(logicalVolumes, name, { preconditions: { uid }, signal }).catch(unlessConflict);
}

class NotRetained extends MoorageError {
  readonly code = 'Aborted';

  constructor(name: string) {
    super(
      `PersistentVolume ${name} is not retained although this was just set; its claim is kept, and this is retried`,
    );
  }
}

interface Identity {
  readonly namespace?: string | undefined;
  readonly name: string;
  readonly uid: string;
}

function fateOf(policy: ReleasedClaim['policy'], volume: OurVolume | undefined): string {
  if (!volume) return '';
  if (policy === 'keep' || volume.isRetained) return `; PersistentVolume ${volume.name} is retained`;
  return '; the data of its volume stays on the disks of that machine';
}

function aboutClaim({ namespace, name, uid }: Claim): About {
  return { resource: persistentVolumeClaims, namespace, name, uid };
}

function namesOf(objects: readonly Stored<KubeObject>[]): readonly string[] {
  return objects.map(({ metadata }) => keyOf(metadata));
}

function keyOf({ namespace, name }: { readonly namespace?: string | undefined; readonly name: string }): string {
  return namespace ? `${namespace}/${name}` : name;
}

function orList(words: readonly string[]): string {
  return `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`;
}

/** Another object has the name now, so this one is gone. */
function unlessConflict(error: unknown): void {
  if (!isConflict(error)) throw error;
}

function unlessNotFound(error: unknown): void {
  if (!isNotFound(error)) throw error;
}
