import { deleting, type LogicalVolume, logicalVolumes, type StoredLogicalVolume } from '../../api/logical-volume.ts';
import { moveAnnotation, volumeMove } from '../../api/names.ts';
import {
  isOver,
  isUnwanted,
  phaseOf,
  type StoredVolumeMove,
  type VolumeMove,
  volumeMoves,
} from '../../api/volume-move.ts';
import { MoorageError } from '../../base/errors.ts';
import { formatBytes } from '../../base/quantity.ts';
import type { WantedVolume } from '../../csi/controller/volume-store.ts';
import { isAlreadyExists } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Informer } from '../../kube/informer.ts';
import { type PersistentVolumeClaim, persistentVolumeClaims, type Stored } from '../../kube/resource.ts';
import type { LogicalVolumeObjects, RequestedVolume } from './logical-volume-objects.ts';

interface Collaborators {
  readonly client: Pick<KubeClient, 'create' | 'get'>;
  readonly objects: Pick<LogicalVolumeObjects, 'create' | 'remove' | 'until'>;
  readonly moves: Pick<Informer<VolumeMove>, 'get'>;
}

/** What a copy needs to know about the request. */
export type WantedCopy = WantedVolume & Required<Pick<WantedVolume, 'claim' | 'source' | 'sourceNode'>>;

/**
 * New volumes with the data of a source on another node. Each is an empty LogicalVolume that cannot be used, and a
 * VolumeMove that fills it. When it has all data, the controller removes the mark from the LogicalVolume. A retried call
 * finds both.
 */
export class CrossNodeCopies {
  readonly #client: Collaborators['client'];
  readonly #objects: Collaborators['objects'];
  readonly #moves: Collaborators['moves'];

  constructor({ client, objects, moves }: Collaborators) {
    this.#client = client;
    this.#objects = objects;
    this.#moves = moves;
  }

  /** Returns when the volume has all data. */
  async create(
    wanted: WantedCopy,
    request: RequestedVolume,
    refuseIfDifferent: (existing: StoredLogicalVolume) => void,
    signal: AbortSignal,
  ): Promise<StoredLogicalVolume> {
    const answer = () => this.#objects.create(request, refuseIfDifferent, signal);
    if (isFilled(await this.#existing(request, signal))) return answer();
    const move = await this.#requested(wanted, request, signal);
    const { uid } = move.metadata;
    const existing = await this.#existing(request, signal);
    if (isFilled(existing)) return answer(); // an earlier VolumeMove has ended meanwhile
    // It was left by a VolumeMove that somebody removed by force, so nothing would ever fill it.
    if (existing && markOf(existing) !== uid) await this.#objects.remove(existing, signal);
    const created = await this.#objects.create(withMark(request, uid), refuseIfDifferent, signal);
    const isSettled = (current: StoredLogicalVolume | undefined) => !current || deleting(current) || isFilled(current);
    const inProgress = () => new CopyInProgress(wanted, this.#moves.get(keyOf(move)));
    const filled = await this.#objects.until(created, isSettled, signal, inProgress);
    if (!filled || deleting(filled)) throw new CopyEnded(wanted, this.#moves.get(keyOf(move)));
    return filled;
  }

  async #existing(request: RequestedVolume, signal: AbortSignal): Promise<StoredLogicalVolume | undefined> {
    const found = await this.#client.get(logicalVolumes, request.metadata.name, { signal });
    return found && !deleting(found) ? found : undefined;
  }

  /** The VolumeMove of this volume, created now or by an earlier call. */
  async #requested(wanted: WantedCopy, request: RequestedVolume, signal: AbortSignal): Promise<StoredVolumeMove> {
    const [namespace = '', claimName = ''] = wanted.claim.split('/');
    const claim = await this.#client.get(persistentVolumeClaims, claimName, { namespace, signal });
    if (!claim || claim.metadata.deletionTimestamp) throw new ClaimGone(wanted.claim);
    const name = `copy-${request.metadata.name}`;
    try {
      const move = moveFor(name, claim, request.metadata.name);
      return await this.#client.create(volumeMoves, move, { signal });
    } catch (error) {
      if (!isAlreadyExists(error)) throw error;
    }
    const existing = await this.#client.get(volumeMoves, name, { namespace, signal });
    const isOfClaim =
      existing?.spec.fill === request.metadata.name &&
      existing.metadata.ownerReferences?.some(({ uid }) => uid === claim.metadata.uid);
    const isEnding = existing && (isOver(existing) || isUnwanted(existing) || phaseOf(existing) === 'Aborting');
    if (!existing || isEnding || !isOfClaim) throw new CopyEnded(wanted, existing);
    return existing;
  }
}

/** Its owner is the claim, so it ends with the claim. */
function moveFor(name: string, claim: Stored<PersistentVolumeClaim>, fill: string): VolumeMove {
  const { name: claimName, namespace = '', uid } = claim.metadata;
  const owner = { apiVersion: 'v1', kind: 'PersistentVolumeClaim', name: claimName, uid };
  return {
    metadata: { name, namespace, finalizers: [volumeMove.finalizer], ownerReferences: [owner] },
    spec: { claimName, fill },
  };
}

function withMark(request: RequestedVolume, moveUid: string): RequestedVolume {
  const { metadata } = request;
  return { ...request, metadata: { ...metadata, annotations: { ...metadata.annotations, [moveAnnotation]: moveUid } } };
}

function markOf({ metadata }: LogicalVolume): string | undefined {
  return metadata?.annotations?.[moveAnnotation];
}

/** Whether no VolumeMove has to fill it any more. */
function isFilled(volume: LogicalVolume | undefined): boolean {
  return volume !== undefined && markOf(volume) === undefined;
}

function keyOf({ metadata: { namespace, name } }: StoredVolumeMove): string {
  return `${namespace}/${name}`;
}

/** The caller retries, and finds the same copy. */
class CopyInProgress extends MoorageError {
  readonly code = 'DeadlineExceeded';

  constructor({ source, sourceNode, nodeNames: [nodeName] }: WantedCopy, move: StoredVolumeMove | undefined) {
    const { copiedBytes, totalBytes } = move?.status?.target ?? {};
    const progress =
      copiedBytes === undefined || totalBytes === undefined
        ? (move?.status?.message ?? 'it has not begun')
        : `${formatBytes(BigInt(copiedBytes))} of ${formatBytes(BigInt(totalBytes))} so far`;
    super(
      `${source.kind} ${source.id} is being copied from node ${sourceNode} to node ${nodeName}: ${progress}; ` +
        'the claim is bound when that is done',
    );
  }
}

/** The retry begins another one, if the source and the claim are still there. */
class CopyEnded extends MoorageError {
  readonly code = 'Aborted';

  constructor({ source, sourceNode, nodeNames: [nodeName] }: WantedCopy, move: StoredVolumeMove | undefined) {
    const why = move?.status?.message || 'it was aborted';
    super(
      `the copy of ${source.kind} ${source.id} from node ${sourceNode} to node ${nodeName} has ended: ${why}; ` +
        'it begins again with the next attempt',
    );
  }
}

class ClaimGone extends MoorageError {
  readonly code = 'NotFound';

  constructor(claim: string) {
    super(`claim ${claim} was deleted, so its volume is not copied`);
  }
}
