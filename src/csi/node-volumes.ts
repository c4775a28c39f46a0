import type { VolumeUse } from './volume-use.ts';

/** How a pod is to see a volume. */
export interface Publication {
  readonly volumeId: string;
  readonly targetPath: string;
  readonly readOnly: boolean;
  readonly use: VolumeUse;
}

/** The volumes of this node, for its pods. Both methods can be repeated; a slow volume delays no other. */
export interface NodeVolumes {
  publish(publication: Publication, signal: AbortSignal): Promise<void>;
  /** Afterwards nothing is at the target path; the volume itself is not touched. */
  unpublish(volumeId: string, targetPath: string, signal: AbortSignal): Promise<void>;
}
