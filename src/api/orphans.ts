/**
 * Volumes and objects that have lost their counterpart, by what they lack. The words are in `kubectl moorage orphans` and in
 * the metric `moorage_orphans`. Moorage removes only those that have no data: what a node refused to create, and what was
 * created for a claim that is gone and was never used.
 */

/** What only the agent of a node knows: a volume without an object, that of a pod that is gone, a class that is not configured. */
export const nodeOrphanKinds = ['DiskOnly', 'InlineLeftover', 'ClassGone'] as const;

/** What the objects of the cluster show. */
export const objectOrphanKinds = [
  'Missing',
  'NodeGone',
  'Refused',
  'Released',
  'Unclaimed',
  'NoLogicalVolume',
] as const;

export type NodeOrphanKind = (typeof nodeOrphanKinds)[number];
export type ObjectOrphanKind = (typeof objectOrphanKinds)[number];
/** What a LogicalVolume can be. */
export type VolumeOrphanKind = Exclude<ObjectOrphanKind, 'NoLogicalVolume'>;
export type OrphanKind = NodeOrphanKind | ObjectOrphanKind;

/** Longer than a volume is without its PersistentVolume while it is created, and than the controller keeps a refused one. */
export const orphanAfterMs = 15 * 60_000;

/** What decides about a LogicalVolume. */
export interface VolumeState {
  readonly createdAt: string;
  /** On the node's disks; undefined until the volume exists. */
  readonly volumeId: string | undefined;
  readonly isSnapshot: boolean;
  readonly isDeleting: boolean;
  readonly isMissing: boolean;
  /** It is the target of a move, and gets a PersistentVolume when it has all data. */
  readonly isReceiving: boolean;
  /** Why its node could not create it. */
  readonly failure: string | undefined;
}

/** What decides about a PersistentVolume of our driver. */
export interface PersistentVolumeState {
  readonly createdAt: string;
  readonly phase: string;
  readonly isRetained: boolean;
}

export interface Surroundings {
  readonly persistentVolume: PersistentVolumeState | undefined;
  readonly isNodeThere: boolean;
  readonly nowMs: number;
}

/** Undefined if it is none, or may only be on its way. What matters most comes first. */
export function orphanedVolume(
  volume: VolumeState,
  { persistentVolume, isNodeThere, nowMs }: Surroundings,
): VolumeOrphanKind | undefined {
  if (!isNodeThere) return 'NodeGone'; // even while it is being deleted: no agent can finish that
  if (volume.isDeleting) return undefined;
  if (volume.isMissing) return 'Missing';
  if (persistentVolume && isReleased(persistentVolume)) return 'Released';
  if (!isSettled(volume, nowMs)) return undefined;
  if (volume.failure !== undefined) return 'Refused';
  const isExpected = volume.isSnapshot || volume.isReceiving;
  return volume.volumeId && !isExpected && !persistentVolume ? 'Unclaimed' : undefined;
}

/** For a PersistentVolume whose volume has no LogicalVolume. */
export function orphanedPersistentVolume(
  persistentVolume: PersistentVolumeState,
  nowMs: number,
): ObjectOrphanKind | undefined {
  return isSettled(persistentVolume, nowMs) ? 'NoLogicalVolume' : undefined;
}

/** For a static volume, which has no LogicalVolume. One that is emptied is on its way to the next claim. */
export function orphanedStaticVolume(
  { phase, isEmptied }: { readonly phase: string; readonly isEmptied: boolean },
  isNodeThere: boolean,
): 'NodeGone' | 'Released' | undefined {
  if (!isNodeThere) return 'NodeGone';
  return phase === 'Released' && !isEmptied ? 'Released' : undefined;
}

/** One that is not retained is being deleted. */
function isReleased({ phase, isRetained }: PersistentVolumeState): boolean {
  return phase === 'Released' && isRetained;
}

function isSettled({ createdAt }: { readonly createdAt: string }, nowMs: number): boolean {
  return nowMs - Date.parse(createdAt) >= orphanAfterMs;
}
