import type { VolumeId } from '../../engine/pool.ts';
import type { Certificate } from '../../http/self-signed.ts';

/** The volumes of this node, as far as a move changes them. Each call can be repeated after a crash. */
export interface MovableVolumes {
  /** From now on no pod can get the volume; those that have it keep it. */
  fence(id: VolumeId, moveUid: string, signal: AbortSignal): Promise<void>;
  /** Makes the volume read-only, durably. Throws while something has it open. Returns the tags that describe its content. */
  freeze(id: VolumeId, signal: AbortSignal): Promise<readonly string[]>;
  /** Removes what the copy needed on the source. */
  endCopy(id: VolumeId, signal: AbortSignal): Promise<void>;
  /** After `endCopy`: the volume can be used and written again, if it was this move that closed it. */
  unfence(id: VolumeId, moveUid: string, signal: AbortSignal): Promise<void>;
  /** The target has all data: it gets the tags of its content, and can be used. */
  open(id: VolumeId, moveUid: string, contentTags: readonly string[], signal: AbortSignal): Promise<void>;
}

export interface Peer {
  /** Made for this move only; the key never leaves the memory of this process. */
  readonly own: Certificate;
  /** The only certificate that is accepted from the other agent, in PEM. */
  readonly peerCertificate: string;
}

export interface Offer extends Peer {
  readonly moveUid: string;
  readonly volumeId: VolumeId;
}

export interface Pull extends Peer {
  readonly moveUid: string;
  readonly volumeId: VolumeId;
  /** Of the source agent, as `host:port`. */
  readonly endpoint: string;
  /** The last round is read from the volume itself, which is read-only then. */
  readonly round: 'next' | 'last';
  readonly bytesPerSecond: bigint | undefined;
  readonly onProgress: (progress: RoundProgress) => void;
}

export interface RoundProgress {
  readonly round: number;
  readonly copiedBytes: bigint;
  readonly totalBytes: bigint;
}

export interface PulledRound {
  readonly round: number;
  /** Sent in this round. */
  readonly bytes: bigint;
  /** Both ends have computed the same one. */
  readonly sha256: string;
}

/** Copies volumes between agents, off the event loop. It knows no Kubernetes. */
export interface Mover {
  /** Where other agents reach this one, as `host:port`. */
  readonly endpoint: string;
  newKey(): Promise<Certificate>;
  /** The source: serves the volume to this peer until it is disposed. */
  offer(offer: Offer): Disposable;
  /** The target: copies one round into its volume, from where it stopped. */
  pull(pull: Pull, signal: AbortSignal): Promise<PulledRound>;
}
