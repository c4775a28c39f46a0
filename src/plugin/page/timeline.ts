import { currentBytes, type StoredLogicalVolume } from '../../api/logical-volume.ts';
import type { StoredVolumeMove } from '../../api/volume-move.ts';
import { formatBytes, parseQuantity } from '../../base/quantity.ts';
import { eventTime } from '../../explain/known.ts';
import { type Event, keyOf, type Pod, type Stored } from '../../kube/resource.ts';
import { moveRow } from '../moves/move-rows.ts';
import type { VolumeObjects } from '../volume.ts';
import type { Moment, MomentKind } from './model.ts';

export interface VolumeHistory extends VolumeObjects {
  readonly moves: readonly StoredVolumeMove[];
  readonly snapshots: readonly StoredLogicalVolume[];
}

/** What happened to a volume, oldest first: from its objects, which stay, and from Events, which expire after an hour. */
export function timelineOf(history: VolumeHistory): readonly Moment[] {
  const { volume, persistentVolume: pv, claim, pods, moves, snapshots, events } = history;
  const requested = claim?.spec?.resources?.requests?.['storage'];
  const storageClass = claim?.spec?.storageClassName;
  const moments: readonly (Moment | undefined)[] = [
    claim && {
      time: claim.metadata.creationTimestamp,
      kind: 'claimed',
      title: `Claim ${keyOf(claim)} created`,
      detail: [requested && formatBytes(parseQuantity(requested)), storageClass && `class ${storageClass}`]
        .filter(Boolean)
        .join(', '),
    },
    ...pods.map((pod) => conditionOf(pod, 'PodScheduled', 'scheduled', `scheduled on ${pod.spec?.nodeName}`)),
    volume && {
      time: volume.metadata.creationTimestamp,
      kind: 'created',
      title: `Volume requested on ${volume.spec.nodeName}`,
      detail: `${formatBytes(currentBytes(volume))} in ${volume.spec.deviceClass || 'the default class'}`,
    },
    pv && {
      time: pv.metadata.creationTimestamp,
      kind: 'created',
      title: `PersistentVolume ${pv.metadata.name} created`,
    },
    pv?.status?.lastPhaseTransitionTime && pv.status.phase
      ? {
          time: pv.status.lastPhaseTransitionTime,
          kind: pv.status.phase === 'Bound' ? 'bound' : 'event',
          title: pv.status.phase === 'Bound' ? 'Bound to its claim' : `PersistentVolume is ${pv.status.phase}`,
        }
      : undefined,
    ...pods.map((pod) => conditionOf(pod, 'PodReadyToStartContainers', 'mounted', 'has its volumes mounted')),
    ...snapshots.map(({ metadata }) => ({
      time: metadata.creationTimestamp,
      kind: 'snapshotted' as const,
      title: `Snapshot ${metadata.name} taken`,
    })),
    ...moves.flatMap(momentsOfMove),
    ...[volume, pv, claim].map((object) =>
      object?.metadata.deletionTimestamp
        ? {
            time: object.metadata.deletionTimestamp,
            kind: 'removed' as const,
            title: `Deletion of ${object === volume ? 'the volume' : object === pv ? 'the PersistentVolume' : 'the claim'} requested`,
          }
        : undefined,
    ),
    ...events.map(momentOfEvent),
  ];
  return moments.filter((moment) => moment !== undefined).sort((a, b) => Date.parse(a.time) - Date.parse(b.time));
}

function conditionOf(pod: Stored<Pod>, type: string, kind: MomentKind, what: string): Moment | undefined {
  const condition = pod.status?.conditions?.find((each) => each.type === type && each.status === 'True');
  const time = condition?.lastTransitionTime;
  return time ? { time, kind, title: `Pod ${pod.metadata.name} ${what}` } : undefined;
}

function momentsOfMove(move: StoredVolumeMove): readonly Moment[] {
  const { from = '?', to = '?', phase, message, pauseSeconds, isOver } = moveRow(move);
  const { startedAt, completedAt } = move.status ?? {};
  const pause = pauseSeconds === undefined ? '' : `its pods could not use it for ${Math.round(pauseSeconds)} s`;
  return [
    ...(startedAt ? [{ time: startedAt, kind: 'moved' as const, title: `Move from ${from} to ${to} began` }] : []),
    ...(completedAt && isOver
      ? [
          {
            time: completedAt,
            kind: 'moved' as const,
            title: phase === 'Done' ? `Moved to ${to}` : `Move to ${to}: ${phase}`,
            detail: phase === 'Done' ? pause : message,
            isWarning: phase !== 'Done',
          },
        ]
      : []),
  ];
}

/** Of Kubernetes, its sidecars and Moorage: what a reason means. Others are shown as they are. */
const known: Readonly<Record<string, readonly [kind: MomentKind, title: string]>> = {
  Scheduled: ['scheduled', 'Scheduled'],
  ProvisioningSucceeded: ['created', 'Provisioned'],
  VolumeCreated: ['created', 'Volume created'],
  VolumeAdopted: ['created', 'Existing volume adopted'],
  Resizing: ['grown', 'Growth begins'],
  VolumeGrown: ['grown', 'Volume grown'],
  VolumeResizeSuccessful: ['grown', 'Volume grown'],
  FileSystemResizeSuccessful: ['grown', 'Filesystem grown'],
  GrowthRefused: ['grown', 'Growth refused'],
  VolumeMoving: ['moved', 'Moving'],
  VolumeMoved: ['moved', 'Moved'],
  MoveWaiting: ['moved', 'Move waits'],
};

function momentOfEvent(event: Stored<Event>): Moment {
  const { reason = '', note = '', type, regarding } = event;
  const [kind, title] = known[reason] ?? ['event', `${reason} · ${regarding?.kind} ${regarding?.name}`];
  return {
    time: new Date(eventTime(event)).toISOString(),
    kind,
    title: known[reason] && regarding?.kind === 'Pod' ? `${title} · Pod ${regarding.name}` : title,
    detail: note,
    ...(type === 'Warning' && { isWarning: true }),
  };
}
