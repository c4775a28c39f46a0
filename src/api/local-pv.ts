/**
 * Names of static volumes: PersistentVolumes that an administrator writes and the agent of their node makes physical. Those
 * with `portavita` are k8s-local-pv's own, so that its manifests and volumes work unchanged with Moorage.
 */

export const localPvPrefix = 'local-pv.k8s.portavita.net/';

/** Annotations of a PersistentVolume: what it requests and, once it is processed, what it got. */
export const localPvOptions = {
  fsType: 'local-pv.k8s.portavita.net/fsType',
  fsOpts: 'local-pv.k8s.portavita.net/fsOpts',
  mountOpts: 'local-pv.k8s.portavita.net/mountOpts',
  vg: 'local-pv.k8s.portavita.net/vg',
  deviceClass: 'moorage.dev/device-class',
  cryptSecret: 'local-pv.k8s.portavita.net/cryptSecret',
  autoRelease: 'local-pv.k8s.portavita.net/autoRelease',
  onRemoval: 'moorage.dev/on-removal',
  onRelease: 'moorage.dev/on-release',
} as const;

export type LocalPvOption = keyof typeof localPvOptions;

/** Further annotations of the PersistentVolume. */
export const localPvAnnotations = {
  /** The requested size, if it is larger than the capacity; the size of the volume once it is processed. */
  size: 'local-pv.k8s.portavita.net/size',
  mountPoint: 'local-pv.k8s.portavita.net/mountPoint',
  /** The name of the Node that the controller found by the node affinity. Only its agent may change the annotations. */
  node: 'local-pv.k8s.portavita.net/node',
  status: 'local-pv.k8s.portavita.net/status',
  /**
   * Set by the agent to `true` with the first status `Processed`, and kept when a later fault changes the status: a volume
   * that is missing since is lost, and nothing may be created in its place.
   */
  processed: 'moorage.dev/processed',
  /** Why the last attempt failed, and what to do, in one sentence. */
  message: 'moorage.dev/message',
  /** `true`: an existing logical volume with the name of the PersistentVolume is used with its data. */
  adopt: 'moorage.dev/adopt',
  /** Set by the agent to `true` once the volume of a deleted PersistentVolume is gone; the controller then removes its finalizer. */
  removed: 'moorage.dev/removed',
  /** Set by the agent to the uid of the claim after which the volume was emptied; the controller then removes the claimRef. */
  released: 'moorage.dev/released',
} as const;

/** Whether the agent empties the volume for the next claim once its claim is gone, judging by its own annotations. */
export function isEmptied(annotations: Readonly<Record<string, string>> = {}): boolean {
  return annotations[localPvOptions.autoRelease] === 'true' && annotations[localPvOptions.onRelease] !== 'keep';
}

export const localPvStatus = { processed: 'Processed', failed: 'Not-Processed-Errors' } as const;

/** Keeps a PersistentVolume until the agent has removed its volume. */
export const localPvFinalizer = 'moorage.dev/local-pv';

/** Keeps a PersistentVolume while it is bound to a claim. */
export const pvProtectionFinalizer = 'kubernetes.io/pv-protection';

/** The name and the uid of the PersistentVolume of a static volume: tags of the volume itself. */
export const localPvTag = 'moorage.dev/local-pv';
export const localPvUidTag = 'moorage.dev/local-pv-uid';

/** What happens to the data of a volume that is removed, or released by its claim. */
export const onRemovalPolicies = ['none', 'discard', 'zero', 'shred'] as const;
export const onReleasePolicies = ['zero', 'shred', 'discard', 'keep'] as const;

export type OnRemoval = (typeof onRemovalPolicies)[number];
export type OnRelease = (typeof onReleasePolicies)[number];

/** The key of the ConfigMap with the defaults. */
export const localPvDefaultsKey = 'defaults.yaml';

/** The directory that k8s-local-pv mounts volumes in. */
export const defaultMountBase = '/mnt/pv';
