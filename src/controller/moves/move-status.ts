import { isCopy, type MovePhase, type StoredVolumeMove, type VolumeMoveStatus } from '../../api/volume-move.ts';
import type { RecordedStep } from './next-step.ts';

type Condition = NonNullable<VolumeMoveStatus['conditions']>[number];

/** The fields of the status that a step changes; undefined if it changes none. */
export function statusAfter(step: RecordedStep, move: StoredVolumeMove, nowMs: number): VolumeMoveStatus | undefined {
  const { status = {} } = move;
  const now = new Date(Math.floor(nowMs / 1000) * 1000).toISOString().replace('.000Z', 'Z');
  const having = (type: string, state: Condition['status'], reason: string, message: string) => ({
    conditions: [
      ...(status.conditions ?? []).filter((each) => each.type !== type),
      { type, status: state, reason, message, lastTransitionTime: now },
    ],
  });
  switch (step.kind) {
    case 'wait':
      return step.message === status.message ? undefined : { message: step.message };
    case 'plan':
      return {
        phase: 'Pending',
        message: `${isCopy(move) ? 'is copied' : 'moves'} to node ${step.plan.targetNode}`,
        ...step.plan,
      };
    case 'refuse':
      return { ...ending('Failed', step.message, now), ...having('Succeeded', 'False', step.reason, step.message) };
    case 'abort': {
      const failed = having('Succeeded', 'False', step.reason, step.message);
      // Nothing was changed before it was planned, except for the volume of a copy.
      if (!status.claimUID && !isCopy(move)) return { ...ending('Aborted', step.message, now), ...failed };
      return { phase: 'Aborting', message: step.message, ...failed };
    }
    case 'record-pods':
      return { pods: step.pods.map(({ metadata: { name, uid } }) => ({ name, uid })), stoppedAt: now };
    case 'commit': {
      const { manifest, verdict } = step;
      return { phase: 'Committed', message: 'the target has all data', manifest, verdict };
    }
    case 'record-return':
      return having('Switched', 'False', 'Returned', 'the PersistentVolume is as it was');
    case 'enter': {
      const { phase, message, together = [] } = step;
      return { ...entering(phase, message, now, having), ...(together.length > 0 && { together }) };
    }
    case 'finish': {
      const { sourceNode, targetNode, sourceVolume } = status;
      const names = step.keptFor.join(', ');
      const kept = `LogicalVolume ${sourceVolume} is kept on node ${sourceNode}, because it has the snapshots ${names}`;
      const done = `${isCopy(move) ? 'copied' : 'moved'} from node ${sourceNode} to node ${targetNode}`;
      const succeeded = having('Succeeded', 'True', isCopy(move) ? 'Copied' : 'Moved', done);
      if (step.keptFor.length === 0) return { ...ending('Done', done, now), ...succeeded };
      const [last] = having('SourceKept', 'True', 'Snapshots', kept).conditions.slice(-1);
      const conditions = last ? [...succeeded.conditions, last] : succeeded.conditions;
      return { ...ending('Done', `${done}; ${kept}`, now), conditions };
    }
  }
}

function entering(
  phase: MovePhase,
  message: string,
  now: string,
  having: (type: string, state: Condition['status'], reason: string, message: string) => VolumeMoveStatus,
): VolumeMoveStatus {
  const entered = { phase, message };
  if (phase === 'Copying') return { ...entered, startedAt: now };
  // From here on the PersistentVolume may be half replaced.
  const replacing = 'the PersistentVolume is being replaced';
  if (phase === 'Switching') return { ...entered, ...having('Switched', 'True', 'Committed', replacing) };
  if (phase === 'Cleaning') return { ...entered, openedAt: now };
  return phase === 'Aborted' ? ending(phase, message, now) : entered;
}

function ending(phase: MovePhase, message: string, now: string): VolumeMoveStatus {
  return { phase, message, completedAt: now };
}

/** How long no pod could use the volume, in seconds; undefined if that is not known. */
export function downtimeSeconds({ stoppedAt, openedAt }: VolumeMoveStatus): number | undefined {
  if (stoppedAt === undefined || openedAt === undefined) return undefined;
  return Math.round((Date.parse(openedAt) - Date.parse(stoppedAt)) / 1000);
}
