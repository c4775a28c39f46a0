/**
 * Why something waits, by code: programs depend on these names, and Events have them as their reason. `fine`: nothing waits.
 * `waits`: it passes by itself, or is how Kubernetes works. `stuck`: somebody must act.
 */
export const reasons = {
  // The claim
  NoStorageClass: 'stuck',
  EmptyStorageClass: 'stuck',
  StorageClassMissing: 'stuck',
  ProvisionerUnknown: 'stuck',
  WaitsForPod: 'waits',
  SchedulerBypassed: 'stuck',
  VolumeMissing: 'stuck',
  VolumeUnfit: 'stuck',
  VolumeOfOtherClaim: 'stuck',
  ClaimLost: 'stuck',
  QuotaExceeded: 'stuck',
  // Creating the volume
  ProvisionerSilent: 'stuck',
  BeingCreated: 'waits',
  BeingCopied: 'waits',
  NoRoomOnNode: 'stuck',
  RequestRefused: 'stuck',
  NodeSilent: 'stuck',
  DriverMissing: 'stuck',
  TopologyUnusable: 'stuck',
  ZoneParameter: 'stuck',
  SourceNotReady: 'stuck',
  SourceElsewhere: 'stuck',
  // Scheduling the pod
  SchedulingGated: 'waits',
  ClaimMissing: 'stuck',
  ClaimBeingDeleted: 'stuck',
  NoRoom: 'stuck',
  RoomUnknown: 'stuck',
  RoomOutdated: 'stuck',
  NoRoomTogether: 'stuck',
  DeviceClassMissing: 'stuck',
  PinnedToNode: 'stuck',
  NodeGone: 'stuck',
  NodeCordoned: 'stuck',
  NodeNotReady: 'stuck',
  NodeTainted: 'stuck',
  NodeExcluded: 'stuck',
  NodeFull: 'stuck',
  VolumesApart: 'stuck',
  VolumeInUse: 'stuck',
  VolumeLimit: 'stuck',
  ZoneLabel: 'stuck',
  NoNodeLeft: 'stuck',
  NotScheduled: 'waits',
  // On the node
  DriverNotRegistered: 'stuck',
  CsiDriverMissing: 'stuck',
  MountFailed: 'stuck',
  VolumeLost: 'stuck',
  PermissionsChanging: 'waits',
  Starting: 'waits',
  // Growth and snapshots
  GrowthFailed: 'stuck',
  GrowthNeedsPod: 'waits',
  Growing: 'waits',
  SnapshotFailed: 'stuck',
  SnapshotControllerMissing: 'stuck',
  SnapshotBeingCreated: 'waits',
  // Moves
  Moving: 'waits',
  MoveCannotBegin: 'stuck',
  DataLeaving: 'waits',
  ReleaseOrdered: 'stuck',
  InvalidPolicy: 'stuck',
  // Deletion
  UsedByPod: 'stuck',
  UsedAsSource: 'waits',
  UsedByClaim: 'stuck',
  SnapshotInUse: 'stuck',
  Retained: 'fine',
  RemovalFailed: 'stuck',
  RemovalWaitsForNode: 'stuck',
  BeingRemoved: 'waits',
  Erasing: 'waits',
  NodeLeaving: 'waits',
  OtherFinalizer: 'stuck',
  // The StatefulSet
  LowerOrdinal: 'waits',
  StaleClaim: 'stuck',
  NotCreated: 'stuck',
  Fine: 'fine',
} as const satisfies Record<string, Severity>;

export type Severity = 'fine' | 'waits' | 'stuck';
export type ReasonCode = keyof typeof reasons;

/** One reason, before it is known whose: a claim may wait because its pod does. */
export interface Finding {
  readonly code: ReasonCode;
  /** In place of "waits", for what does not wait. */
  readonly verb?: string;
  /** Continues "X waits: ". The whole sentence if nothing waits. */
  readonly cause: string;
  /** What to do, in a few words. Ends the sentence. */
  readonly advice?: string;
  /** The facts, each with the object that it was read from. */
  readonly evidence?: readonly string[];
  /** Commands to run, or what to write. */
  readonly remedy?: readonly string[];
}

export interface Explanation {
  /** What it is about: `claim data-db-0`. */
  readonly subject: string;
  readonly code: ReasonCode;
  readonly severity: Severity;
  /** For people: what waits, why, and what to do. */
  readonly sentence: string;
  readonly evidence: readonly string[];
  readonly remedy: readonly string[];
}

/** `verb`: another one for what does not exist yet. */
export function explanation(subject: string, finding: Finding, verb = 'waits'): Explanation {
  const { code, verb: own = verb, cause, advice, evidence = [], remedy = [] } = finding;
  const severity = reasons[code];
  const start = severity === 'fine' ? `${subject} ${cause}` : `${subject} ${own}: ${cause}`;
  return { subject, code, severity, sentence: advice ? `${start}; ${advice}` : start, evidence, remedy };
}

/** What gRPC's server said, without the words of its callers around it. */
export function rpcMessage(text: string): string {
  return text.replace(/^.*rpc error: code = \w+ desc = /s, '');
}

/** The finding about something that another object waits for. */
export function because(introduction: string, { cause, ...rest }: Finding): Finding {
  return { ...rest, cause: `${introduction}${cause}` };
}

/** For people: `a, b and c`; of many, the first ones. */
export function listed(names: readonly string[], limit = 5): string {
  if (names.length > limit) return `${names.slice(0, limit).join(', ')} and ${names.length - limit} more`;
  return names.length > 1 ? `${names.slice(0, -1).join(', ')} and ${names.at(-1)}` : (names[0] ?? '');
}
