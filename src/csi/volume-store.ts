/** A volume that exists, as the cluster knows it. */
export interface StoredVolume {
  readonly id: string;
  readonly nodeName: string;
  readonly sizeBytes: bigint;
}

export interface WantedVolume {
  /** Makes the wish repeatable: the same name with the same wishes is the same volume. */
  readonly name: string;
  /** Where it may be, best first. */
  readonly nodeNames: readonly [string, ...string[]];
  /** Empty for the node's default. */
  readonly deviceClass: string;
  /** Empty for none. */
  readonly lvcreateOptionClass: string;
  readonly sizeBytes: bigint;
  /** `<namespace>/<name>` of the claim it is made for, where the caller says so. */
  readonly claim?: string;
}

/** The volumes of the cluster. Every method can be repeated, by any replica. */
export interface VolumeStore {
  /** Ends when the volume is on its node's disks. If the signal aborts first, the wish stays: repeat the call. */
  create(wanted: WantedVolume, signal: AbortSignal): Promise<StoredVolume>;
  find(id: string, signal: AbortSignal): Promise<StoredVolume | undefined>;
  /** Ends when nothing is left of the volume. One that is not there is removed already. */
  remove(id: string, signal: AbortSignal): Promise<void>;
}

/** How much room the nodes say they have. */
export interface NodeCapacities {
  /** By node name, of the nodes that have this device class; the empty name is each node's default class. */
  freeBytes(deviceClass: string): ReadonlyMap<string, bigint>;
}
