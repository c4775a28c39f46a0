/** How a pod is to see a volume. */
export interface Publication {
  readonly volumeId: string;
  readonly targetPath: string;
  readonly readOnly: boolean;
  readonly use: FilesystemUse | BlockUse;
}

export interface FilesystemUse {
  readonly kind: 'filesystem';
  /** Empty for the default. */
  readonly filesystem: string;
  readonly mountFlags: readonly string[];
}

export interface BlockUse {
  readonly kind: 'block';
}

/** The volumes of this node, for the pods that run on it. Both methods can be repeated; each volume waits for itself only. */
export interface NodeVolumes {
  publish(publication: Publication, signal: AbortSignal): Promise<void>;
  /** Afterwards nothing is at the target path; the volume itself is not touched. */
  unpublish(volumeId: string, targetPath: string, signal: AbortSignal): Promise<void>;
}
