import type { RoundKind } from '../../engine/changes/change-tracking.ts';
import type { VolumeId } from '../../engine/pool.ts';
import type { Certificate } from '../../http/self-signed.ts';

/** The volumes of this node, as far as a move changes them. Each call can be repeated after a crash. */
export interface MovableVolumes {
  /** From now on no pod can get the volume; those that have it keep it. */
  fence(id: VolumeId, moveUid: string, signal: AbortSignal): Promise<void>;
  /** Makes the volume read-only, durably. Throws while something has it open. */
  freeze(id: VolumeId, signal: AbortSignal): Promise<void>;
  /** Removes what the copy needed on the source. */
  endCopy(id: VolumeId, signal: AbortSignal): Promise<void>;
  /** After `endCopy`: the volume can be used and written again, if it was this move that closed it. */
  unfence(id: VolumeId, moveUid: string, signal: AbortSignal): Promise<void>;
  /** The target has all data: it can be used. */
  open(id: VolumeId, moveUid: string, signal: AbortSignal): Promise<void>;
}

interface Peer {
  readonly moveUid: string;
  readonly volumeId: VolumeId;
  /** Made for this move only; the key never leaves the memory of this process. */
  readonly own: Certificate;
  /** The only certificate that is accepted from the other agent, in PEM. */
  readonly peerCertificate: string;
}

export type OfferedVolume = Peer;

export interface Pull extends Peer {
  /** Of the source agent, as `host:port`. */
  readonly endpoint: string;
  readonly kind: RoundKind;
  readonly bytesPerSecond: number | undefined;
  readonly onProgress: (progress: { readonly doneBytes: number; readonly totalBytes: number }) => void;
}

export interface PulledRound {
  readonly sentBytes: number;
  /** Both ends have computed the same one. */
  readonly sha256: string;
  readonly durationMs: number;
}

/** Copies volumes between agents. It knows no Kubernetes. */
export interface Copying {
  /** Where other agents reach this one, as `host:port`. */
  readonly endpoint: string;
  newKey(): Promise<Certificate>;
  /** The source: serves the volume to this peer until it is disposed of. */
  offer(offered: OfferedVolume): Promise<AsyncDisposable>;
  /** The target: copies one round into its volume, from where it stopped. */
  pull(pull: Pull, signal: AbortSignal): Promise<PulledRound>;
}
