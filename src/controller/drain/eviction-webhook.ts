import { drainedFromAnnotation } from '../../api/names.ts';
import { type VolumeMove, volumeMoves } from '../../api/volume-move.ts';
import type { Clock } from '../../base/clock.ts';
import { Requeue } from '../../base/keyed-queue.ts';
import type { Log } from '../../base/log.ts';
import type { Work, WorkQueue } from '../../base/work.ts';
import { isAlreadyExists, isNotFound } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Informer } from '../../kube/informer.ts';
import {
  type Node,
  type PersistentVolume,
  type PersistentVolumeClaim,
  type Pod,
  persistentVolumeClaims,
} from '../../kube/resource.ts';
import { type Admission, type AdmissionRequest, admission } from '../../webhook/admission.ts';
import { type Departure, decide, mayReplace } from './decide.ts';
import { type ClaimOnDrain, orderOfDrain, type PodOnNode, type VolumeOnDrain } from './drained-objects.ts';
import { type DrainedPod, drainedPod } from './drained-pod.ts';

interface Watched<T extends object, P> extends Pick<Informer<T, P>, 'get' | 'synced'> {}

interface Collaborators {
  readonly client: Pick<KubeClient, 'create' | 'get' | 'patch' | 'delete'>;
  /** Those that run and use claims. */
  readonly pods: Watched<Pod, PodOnNode | undefined>;
  readonly nodes: Watched<Node, { readonly isDraining: boolean }>;
  readonly claims: Watched<PersistentVolumeClaim, { readonly onDrain: ClaimOnDrain | undefined }>;
  readonly persistentVolumes: Watched<PersistentVolume, { readonly onDrain?: VolumeOnDrain | undefined }>;
  readonly moves: Pick<Informer<VolumeMove>, 'list' | 'synced'>;
  readonly clock: Clock;
  readonly log: Log;
}

/** An Eviction of policy/v1, as much of it as matters. */
interface Eviction {
  readonly deleteOptions?: { readonly dryRun?: readonly string[] };
}

const allowed: Admission = { allowed: true };

/**
 * Decides whether a pod can be evicted from a node that is drained, by the policies of its claims. It answers from memory,
 * and what must be done first runs in the background. That never gives data up, because anybody can ask. Code 429 makes
 * `kubectl drain` try again after 5 s; no retryAfterSeconds, because clients would then try again silently.
 */
export class EvictionWebhook {
  readonly #collaborators: Collaborators;
  #queue: WorkQueue | undefined;

  constructor(collaborators: Collaborators) {
    this.#collaborators = collaborators;
  }

  /** Answers an AdmissionReview. */
  readonly validate = admission<Eviction>('Eviction', (request) => this.#answer(request));

  /** Prepares what pods wait for. Every replica does it, for those that it was asked about. */
  get work(): Work {
    return {
      name: 'drains',
      watch: (queue) => {
        this.#queue = queue;
        return [() => (this.#queue = undefined)];
      },
      reconcile: async (key, signal) => {
        const [namespace = '', name = ''] = key.split('/');
        const pod = this.#podFrom(namespace, name);
        if (!pod) return Requeue.never;
        const verdict = decide(pod, this.#collaborators.clock.now());
        if (verdict.kind !== 'refuse') return Requeue.never;
        for (const departure of verdict.departures) await this.#prepare(departure, pod, signal);
        return Requeue.never;
      },
      concurrency: 4,
    };
  }

  #answer({ namespace, name, isDryRun, object }: AdmissionRequest<Eviction>): Admission {
    // kubectl drain --dry-run=server says it in the Eviction only. It would repeat a refusal for ever.
    if (isDryRun || object.deleteOptions?.dryRun?.length) return allowed;
    const unread = this.#unread();
    if (unread) return refusal(`Moorage has not read all ${unread} yet; try again`);
    const pod = this.#podFrom(namespace, name);
    const verdict = pod && decide(pod, this.#collaborators.clock.now());
    if (verdict?.kind !== 'refuse') return allowed;
    if (verdict.departures.length > 0) this.#queue?.add(`${namespace}/${name}`);
    return refusal(verdict.message);
  }

  #unread(): string | undefined {
    const { pods, nodes, claims, persistentVolumes, moves } = this.#collaborators;
    const watched = { pods, nodes, claims, PersistentVolumes: persistentVolumes, VolumeMoves: moves };
    return Object.entries(watched).find(([, { synced }]) => !synced)?.[0];
  }

  /** Undefined if the pod is not drained, or has no volume of ours on its node. */
  #podFrom(namespace: string, name: string): DrainedPod | undefined {
    const { pods, nodes, claims, persistentVolumes, moves } = this.#collaborators;
    const pod = pods.get(`${namespace}/${name}`);
    if (!pod || pod.isBeyondEviction || !nodes.get(pod.nodeName)?.isDraining) return undefined;
    return drainedPod(pod, {
      isDraining: true,
      claim: (claim) => claims.get(`${namespace}/${claim}`)?.onDrain,
      volume: (volume) => persistentVolumes.get(volume)?.onDrain,
      moves: moves.list(),
    });
  }

  async #prepare(departure: Departure, { namespace, nodeName }: DrainedPod, signal: AbortSignal): Promise<void> {
    const { client, log } = this.#collaborators;
    const { claim } = departure;
    if (departure.kind === 'move') {
      await this.#move({ name: departure.name, namespace }, claim, nodeName, signal);
    } else {
      const body = { metadata: { uid: departure.uid, annotations: orderOfDrain('graceful', nodeName) } };
      await client.patch(persistentVolumeClaims, claim, { type: 'merge', body }, { namespace, signal });
    }
    log.info({ namespace, claim, node: nodeName, departure: departure.kind }, 'prepares a drain');
  }

  async #move(
    { name, namespace }: { readonly name: string; readonly namespace: string },
    claimName: string,
    nodeName: string,
    signal: AbortSignal,
  ): Promise<void> {
    const { client, clock } = this.#collaborators;
    const earlier = await client.get(volumeMoves, name, { namespace, signal });
    if (earlier && !mayReplace(earlier, clock.now())) return;
    try {
      if (earlier) {
        const { uid } = earlier.metadata;
        await client.delete(volumeMoves, name, { namespace, preconditions: { uid }, signal });
      }
      const metadata = { name, namespace, annotations: { [drainedFromAnnotation]: nodeName } };
      await client.create(volumeMoves, { metadata, spec: { claimName, patient: true } }, { signal });
    } catch (error) {
      if (!isAlreadyExists(error) && !isNotFound(error)) throw error; // another replica was asked, too
    }
  }
}

function refusal(message: string): Admission {
  return { allowed: false, status: { code: 429, message } };
}
