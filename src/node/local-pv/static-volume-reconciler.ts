import { localPvFinalizer } from '../../api/local-pv.ts';
import { codeOf, type ErrorCode, MoorageError, messageOf } from '../../base/errors.ts';
import { type Aside, Requeue } from '../../base/keyed-queue.ts';
import type { Log } from '../../base/log.ts';
import { VolumeInUse } from '../../engine/errors.ts';
import { BeingOpened } from '../../engine/pools.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Informer } from '../../kube/informer.ts';
import { type PersistentVolume, persistentVolumes } from '../../kube/resource.ts';
import { isPassing } from '../reconcile/logical-volume-reconciler.ts';
import type { StaticVolumePools } from './find-volume.ts';
import { nextStep, type ProvidingStep } from './next-step.ts';
import { groupsOf, type Observation, observe, unansweredRelease } from './observe.ts';
import type { DefaultsSource } from './static-volume-work.ts';
import { StaticVolumeWriter, type StoredPersistentVolume } from './static-volume-writer.ts';
import type { VolumeSteps } from './volume-steps.ts';

interface Collaborators {
  readonly client: Pick<KubeClient, 'get' | 'patch'>;
  /** Only the static PersistentVolumes of this node. */
  readonly volumes: Pick<Informer<PersistentVolume>, 'get' | 'list'>;
  readonly defaults: Pick<DefaultsSource, 'synced' | 'get'>;
  readonly pools: StaticVolumePools;
  readonly steps: VolumeSteps;
  readonly mountBase: string;
  /** Whether this agent empties released volumes for the next claim. */
  readonly releases: boolean;
  readonly log: Log;
}

/**
 * Reads one PersistentVolume and the disks, does what the next step says, and answers in one PATCH of annotations. Every
 * step can be retried, as it is decided again from what is there.
 */
export class StaticVolumeReconciler {
  readonly #client: Collaborators['client'];
  readonly #writer: StaticVolumeWriter;
  readonly #volumes: Collaborators['volumes'];
  readonly #defaults: Collaborators['defaults'];
  readonly #pools: StaticVolumePools;
  readonly #steps: VolumeSteps;
  readonly #surroundings: Parameters<typeof observe>[1];
  readonly #log: Log;

  constructor({ client, volumes, defaults, pools, steps, mountBase, releases, log }: Collaborators) {
    this.#client = client;
    this.#writer = new StaticVolumeWriter(client);
    this.#volumes = volumes;
    this.#defaults = defaults;
    this.#pools = pools;
    this.#steps = steps;
    this.#surroundings = { pools, defaults: () => defaults.get(), mountBase, releases };
    this.#log = log;
  }

  async reconcile(name: string, signal: AbortSignal, aside: Aside): Promise<Requeue> {
    if (!this.#defaults.synced) return Requeue.never; // then all volumes are queued
    await aside(this.#pools.serveGroups(groupsOf(this.#volumes.list(), this.#surroundings), signal));
    const pv = this.#volumes.get(name);
    if (!pv?.metadata.finalizers?.includes(localPvFinalizer)) return Requeue.never; // gone, or not handed over to this node
    try {
      return await this.#advance(pv, signal, aside);
    } catch (error) {
      if (signal.aborted) throw error;
      await this.#report(pv, error, signal);
      if (endsByItself(error)) throw error;
      this.#log.warn({ name, code: codeOf(error) }, messageOf(error));
      return Requeue.never;
    }
  }

  /** What can take long runs aside. */
  async #advance(pv: StoredPersistentVolume, signal: AbortSignal, aside: Aside): Promise<Requeue> {
    const observed = await aside(observe(pv, this.#surroundings, signal));
    if (!observed) {
      await this.#writer.gone(pv, signal);
      return Requeue.never;
    }
    const step = nextStep(observed.wanted, observed.orders, observed.found);
    switch (step.kind) {
      case 'nothing':
        return Requeue.never;
      case 'remove':
      case 'adopt and remove':
      case 'confirm':
        await aside(this.#steps.end(observed.wanted, step, signal));
        await this.#writer.gone(pv, signal);
        return Requeue.never;
      case 'create':
      case 'adopt':
      case 'take if empty':
      case 'release':
      case 'use':
        return this.#provide(pv, observed, step, signal, aside);
    }
  }

  async #provide(
    pv: StoredPersistentVolume,
    { wanted, orders }: Observation,
    step: ProvidingStep,
    signal: AbortSignal,
    aside: Aside,
  ): Promise<Requeue> {
    const mustStillBeReleased = () => this.#mustStillBeReleased(pv, signal);
    const held = await aside(this.#steps.provide(wanted, step, mustStillBeReleased, signal));
    await this.#steps.show(wanted, held, signal);
    // What was adopted has the data of the released claim, which the next step empties.
    const releasedBy = step.kind === 'adopt' ? undefined : orders.releasedBy;
    await this.#writer.ready(pv, wanted, held, releasedBy, signal);
    return releasedBy === orders.releasedBy ? Requeue.never : Requeue.after(0);
  }

  /** Called once no pod can start on the volume: what the API server says now cannot be overtaken by a new claim's data. */
  async #mustStillBeReleased(pv: StoredPersistentVolume, signal: AbortSignal): Promise<void> {
    const { name, uid } = pv.metadata;
    const current = await this.#client.get(persistentVolumes, name, { signal });
    const isSame = current?.metadata.uid === uid && unansweredRelease(current) === unansweredRelease(pv);
    if (!isSame || current.metadata.deletionTimestamp !== undefined) throw new NotReleasedAnyMore(name);
  }

  /** What ends within moments, or says nothing about the volume, is not reported. */
  async #report(pv: StoredPersistentVolume, error: unknown, signal: AbortSignal): Promise<void> {
    if (silent.has(codeOf(error)) || (error instanceof Error && error.cause instanceof BeingOpened)) return;
    const isInUse = pv.metadata.deletionTimestamp !== undefined || unansweredRelease(pv) !== undefined;
    if (isInUse) await this.#writer.refused(pv, error, signal);
    else await this.#writer.failed(pv, error, signal);
  }
}

const silent: ReadonlySet<ErrorCode> = new Set(['Aborted', 'Cancelled']);

/** Retried with backoff. Anything else is retried when the PersistentVolume, the defaults or the pools change. */
function endsByItself(error: unknown): boolean {
  return isPassing(error) || codeOf(error) === 'Internal' || error instanceof VolumeInUse;
}

export class NotReleasedAnyMore extends MoorageError {
  readonly code = 'Aborted';

  constructor(name: string) {
    super(`PersistentVolume ${name} was changed while its volume was about to be emptied; its data is kept`);
  }
}
