import { isEncrypted, type LogicalVolume, logicalVolumes, type StoredLogicalVolume } from '../../api/logical-volume.ts';
import {
  claimKey,
  createdByLabel,
  ioLimitNames,
  logicalVolume,
  luks2,
  moveAnnotation,
  movedAnnotation,
  parameters,
  sourceMark,
  volumeMove,
} from '../../api/names.ts';
import {
  isSourceOf,
  isTargetOf,
  type StoredVolumeMove,
  type VolumeMoveStatus,
  volumeMoves,
} from '../../api/volume-move.ts';
import { MoorageError } from '../../base/errors.ts';
import { Requeue } from '../../base/keyed-queue.ts';
import { ApiError, isAlreadyExists, isConflict, isNotFound } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import { type Pod, persistentVolumeClaims, persistentVolumes, pods, type Stored } from '../../kube/resource.ts';
import type { MoveReports } from './move-reports.ts';
import { statusAfter } from './move-status.ts';
import type { RecordedStep, Step } from './next-step.ts';
import { volumesWithId } from './observe.ts';
import type { Observed } from './observed.ts';
import { handleOf } from './persistent-volume-switch.ts';

type Client = Pick<KubeClient, 'create' | 'get' | 'list' | 'patch' | 'delete' | 'evict'>;
type StepOf<Kind extends Step['kind']> = Extract<Step, { readonly kind: Kind }>;

/** A budget that refuses an eviction says nothing when it would allow it; kubectl drain retries as often. */
const evictionRetryMs = 5_000;

/** Undefined: something was changed, so the next step can be decided at once. */
type Outcome = Requeue | undefined;
const lookAgain = undefined;

/**
 * Does one step of a move. Every write names what it expects, a uid or a resourceVersion, so that it fails instead of
 * overwriting what others did since it was decided; then the next look decides again.
 */
export class MoveSteps {
  readonly #client: Client;
  readonly #reports: MoveReports;
  readonly #now: () => number;

  constructor({ client, reports, now }: { client: Client; reports: MoveReports; now: () => number }) {
    this.#client = client;
    this.#reports = reports;
    this.#now = now;
  }

  async run(step: Step, move: StoredVolumeMove, seen: Observed, signal: AbortSignal): Promise<Outcome> {
    switch (step.kind) {
      case 'nothing':
        return Requeue.never;
      case 'wait':
        await this.#record(step, move, seen, signal);
        return step.forMs === undefined ? Requeue.never : Requeue.after(step.forMs);
      case 'protect':
        return this.#setFinalizers(move, [...(move.metadata.finalizers ?? []), volumeMove.finalizer], signal);
      case 'release': {
        const left = (move.metadata.finalizers ?? []).filter((each) => each !== volumeMove.finalizer);
        return this.#setFinalizers(move, left, signal);
      }
      case 'delete-move': {
        const { name, namespace, uid } = move.metadata;
        await this.#client.delete(volumeMoves, name, { namespace, preconditions: { uid }, signal });
        return lookAgain;
      }
      case 'create-target':
        return this.#createTarget(move, seen, signal);
      case 'evict-pods':
        return this.#evict(step, move, seen, signal);
      case 'delete-pods':
        return this.#deletePods(step.pods, move, signal);
      case 'retain-volume':
      case 'delete-volume':
      case 'strip-volume':
        return this.#switchVolume(step, signal);
      case 'create-volume':
        return this.#createVolume(step, move, seen, signal);
      case 'touch-claim':
        return this.#touchClaim(step, seen, signal);
      case 'mark-source':
        return this.#annotate(seen.source, sourceMark(move.metadata.uid), 'source', signal);
      case 'unmark-source':
        return this.#annotate(seen.source, sourceMark(move.metadata.uid), null, signal);
      case 'unmark-target':
        return this.#annotate(seen.target, moveAnnotation, null, signal);
      case 'delete-target':
        return this.#deleteTarget(move, seen, signal);
      case 'delete-source':
        if (seen.source) await this.#deleteVolume(seen.source, signal);
        return lookAgain;
      case 'plan':
      case 'refuse':
      case 'abort':
      case 'enter':
      case 'record-pods':
      case 'commit':
      case 'record-return':
      case 'finish':
        return this.#record(step, move, seen, signal);
    }
  }

  /** Steps that change only the status of the move. */
  async #record(
    step: RecordedStep,
    move: StoredVolumeMove,
    { claim }: Observed,
    signal: AbortSignal,
  ): Promise<Outcome> {
    const status = statusAfter(step, move, this.#now());
    if (!status) return lookAgain;
    const written = await this.#writeStatus(move, status, signal);
    await this.#reports.report(step, written, claim?.metadata.uid, signal);
    return lookAgain;
  }

  async #writeStatus(move: StoredVolumeMove, status: VolumeMoveStatus, signal: AbortSignal): Promise<StoredVolumeMove> {
    const { name, namespace, resourceVersion } = move.metadata;
    const body = { metadata: { resourceVersion }, status };
    return this.#client.patch(volumeMoves, name, { type: 'merge', body }, { namespace, subresource: 'status', signal });
  }

  async #setFinalizers(
    { metadata }: StoredVolumeMove,
    finalizers: readonly string[],
    signal: AbortSignal,
  ): Promise<Outcome> {
    const { name, namespace, resourceVersion } = metadata;
    const body = { metadata: { resourceVersion, finalizers } };
    try {
      await this.#client.patch(volumeMoves, name, { type: 'merge', body }, { namespace, signal });
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
    return lookAgain;
  }

  /** Reserves the space. The volume cannot be used until the move opens it: its annotation says so to its node. */
  async #createTarget(move: StoredVolumeMove, { source }: Observed, signal: AbortSignal): Promise<Outcome> {
    const { targetVolume: name = '', targetNode: nodeName = '' } = move.status ?? {};
    if (!source) return lookAgain;
    const limits = Object.values(ioLimitNames).flatMap((key) => {
      const value = source.metadata.annotations?.[key];
      return value === undefined ? [] : [[key, value] as const];
    });
    const { deviceClass, lvcreateOptionClass } = source.spec;
    const wanted: LogicalVolume = {
      metadata: {
        name,
        finalizers: [logicalVolume.finalizer],
        labels: { [createdByLabel.key]: createdByLabel.value },
        annotations: {
          [claimKey]: `${move.metadata.namespace}/${move.spec.claimName}`,
          [moveAnnotation]: move.metadata.uid,
          ...Object.fromEntries(limits),
          ...(isEncrypted(source) && { [parameters.encryption]: luks2 }),
        },
      },
      spec: {
        name,
        nodeName,
        size: move.status?.size ?? source.spec.size,
        ...(deviceClass && { deviceClass }),
        ...(lvcreateOptionClass && { lvcreateOptionClass }),
      },
    };
    try {
      await this.#client.create(logicalVolumes, wanted, { signal });
    } catch (error) {
      if (!isAlreadyExists(error)) throw error;
    }
    return lookAgain;
  }

  async #evict(
    { pods: running }: StepOf<'evict-pods'>,
    move: StoredVolumeMove,
    seen: Observed,
    signal: AbortSignal,
  ): Promise<Outcome> {
    const refusals: string[] = [];
    for (const { metadata } of running) {
      const { name, namespace, uid } = metadata;
      try {
        await this.#client.evict(name, { namespace, uid, signal });
      } catch (error) {
        if (isNotFound(error) || isConflict(error)) continue; // it is gone; another pod may have its name
        if (!(error instanceof ApiError) || (error.status !== 429 && error.status !== 500)) throw error;
        refusals.push(`pod ${name} cannot be stopped yet: ${error.message}`);
      }
    }
    if (refusals.length === 0) return lookAgain;
    const message = refusals.join('; ');
    await this.#reports.waiting(message, move, signal);
    await this.#record({ kind: 'wait', message }, move, seen, signal);
    return Requeue.after(evictionRetryMs);
  }

  async #deletePods(stuck: readonly Stored<Pod>[], move: StoredVolumeMove, signal: AbortSignal): Promise<Outcome> {
    for (const { metadata } of stuck) {
      const { name, namespace, uid } = metadata;
      await this.#reports.replaced(metadata, move, signal);
      try {
        await this.#client.delete(pods, name, { namespace, preconditions: { uid }, signal });
      } catch (error) {
        if (!isConflict(error)) throw error;
      }
    }
    return lookAgain;
  }

  /** The PersistentVolume gives its claim the data, so it may only name a volume of this move. */
  async #createVolume(
    { wanted }: StepOf<'create-volume'>,
    move: StoredVolumeMove,
    seen: Observed,
    signal: AbortSignal,
  ): Promise<Outcome> {
    const named = await volumesWithId(this.#client, handleOf(wanted) ?? '', signal);
    const foreign = named.find((volume) => !isSourceOf(move, volume) && !isTargetOf(move, volume));
    if (foreign) {
      const { name } = foreign.metadata;
      const message = `waits, because its PersistentVolume would get LogicalVolume ${name}, which does not belong to this move`;
      await this.#record({ kind: 'wait', message }, move, seen, signal);
      return Requeue.never;
    }
    try {
      await this.#client.create(persistentVolumes, wanted, { signal });
    } catch (error) {
      if (!isAlreadyExists(error)) throw error; // the next look decides whether it is ours
    }
    return lookAgain;
  }

  async #switchVolume(
    step: StepOf<'retain-volume' | 'delete-volume' | 'strip-volume'>,
    signal: AbortSignal,
  ): Promise<Outcome> {
    const { name, uid, resourceVersion } = step.volume.metadata;
    if (step.kind === 'delete-volume') {
      const isRetained = step.volume.spec?.persistentVolumeReclaimPolicy === 'Retain';
      if (!isRetained) throw new NotRetained(name);
      await this.#client.delete(persistentVolumes, name, { preconditions: { uid, resourceVersion }, signal });
      return lookAgain;
    }
    const change =
      step.kind === 'retain-volume'
        ? { spec: { persistentVolumeReclaimPolicy: 'Retain' } }
        : { metadata: { finalizers: null } };
    const metadata = { uid, resourceVersion, ...change.metadata };
    try {
      await this.#client.patch(persistentVolumes, name, { type: 'merge', body: { ...change, metadata } }, { signal });
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
    return lookAgain;
  }

  async #touchClaim({ nodeName }: StepOf<'touch-claim'>, { claim }: Observed, signal: AbortSignal): Promise<Outcome> {
    if (!claim) return lookAgain;
    const { name, namespace, uid } = claim.metadata;
    const body = { metadata: { uid, annotations: { [movedAnnotation]: nodeName } } };
    await this.#client.patch(persistentVolumeClaims, name, { type: 'merge', body }, { namespace, signal });
    return lookAgain;
  }

  async #annotate(
    volume: StoredLogicalVolume | undefined,
    key: string,
    value: string | null,
    signal: AbortSignal,
  ): Promise<Outcome> {
    if (!volume) return lookAgain;
    const { name, uid, resourceVersion } = volume.metadata;
    const body = { metadata: { uid, resourceVersion, annotations: { [key]: value } } };
    await this.#client.patch(logicalVolumes, name, { type: 'merge', body }, { signal });
    return lookAgain;
  }

  /** Only what was created for this move. */
  async #deleteTarget(move: StoredVolumeMove, { target }: Observed, signal: AbortSignal): Promise<Outcome> {
    if (!target) return lookAgain;
    if (!isTargetOf(move, target)) {
      throw new NotOfMove(target.metadata.name, move.metadata.name);
    }
    await this.#deleteVolume(target, signal);
    return lookAgain;
  }

  async #deleteVolume({ metadata }: StoredLogicalVolume, signal: AbortSignal): Promise<void> {
    const { name, uid, resourceVersion } = metadata;
    await this.#client.delete(logicalVolumes, name, { preconditions: { uid, resourceVersion }, signal });
  }
}

class NotRetained extends MoorageError {
  readonly code = 'Internal';

  constructor(name: string) {
    super(`PersistentVolume ${name} is not retained, so it is not replaced; this is retried`);
  }
}

class NotOfMove extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(name: string, move: string) {
    super(
      `LogicalVolume ${name} was not created by VolumeMove ${move}, so it is kept; find out what created it: the move continues when it is gone`,
    );
  }
}
