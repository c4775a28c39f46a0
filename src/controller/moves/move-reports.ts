import { isCopy, type StoredVolumeMove } from '../../api/volume-move.ts';
import { type About, type EventContent, type Reporting, report } from '../../kube/events.ts';
import { type Pod, persistentVolumeClaims, pods, type Stored } from '../../kube/resource.ts';
import { downtimeSeconds } from './move-status.ts';
import type { RecordedStep } from './next-step.ts';

/** Events about a move, on its claim and on its pods. One that cannot be written does not stop the move. */
export class MoveReports {
  readonly #collaborators: Reporting;

  constructor(collaborators: Reporting) {
    this.#collaborators = collaborators;
  }

  /** After the step was recorded. */
  async report(
    step: RecordedStep,
    move: StoredVolumeMove,
    claimUid: string | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    const { log } = this.#collaborators;
    const { name, namespace } = move.metadata;
    if (step.kind !== 'wait') log.info({ move: `${namespace}/${name}`, step: step.kind }, move.status?.message ?? '');
    const event = eventOf(step, move);
    if (event) await this.#write({ ...aboutClaim(move), uid: claimUid ?? move.status?.claimUID }, event, signal);
    if (step.kind !== 'record-pods') return;
    const message = `stopping this pod, because its volume moves to node ${move.status?.targetNode}`;
    for (const { metadata } of step.pods) {
      await this.#write(
        aboutPod(metadata),
        { type: 'Normal', reason: 'VolumeMoving', action: 'Moving', message },
        signal,
      );
    }
  }

  /** Why its pods are still not stopped. */
  async waiting(message: string, move: StoredVolumeMove, signal: AbortSignal): Promise<void> {
    await this.#write(aboutClaim(move), { type: 'Warning', reason: 'MoveWaiting', action: 'Moving', message }, signal);
  }

  /** A pod that waits on the node that its volume has left. */
  async replaced(pod: Stored<Pod>['metadata'], { status }: StoredVolumeMove, signal: AbortSignal): Promise<void> {
    const message = `deleting this pod, because its volume moves to node ${status?.targetNode}; its owner creates it again`;
    await this.#write(aboutPod(pod), { type: 'Normal', reason: 'VolumeMoved', action: 'Moving', message }, signal);
  }

  async #write(about: About, event: EventContent, signal: AbortSignal): Promise<void> {
    await report(this.#collaborators, about, event, signal);
  }
}

function eventOf(step: RecordedStep, move: StoredVolumeMove): EventContent | undefined {
  const { metadata, status = {} } = move;
  const { sourceNode, targetNode } = status;
  const normal = (reason: string, message: string): EventContent => ({
    type: 'Normal',
    reason,
    action: 'Moving',
    message,
  });
  const warning = (reason: string, message: string): EventContent => ({
    type: 'Warning',
    reason,
    action: 'Moving',
    message,
  });
  const named = `VolumeMove ${metadata.name}`;
  if (step.kind === 'refuse') return warning('MoveRefused', `${named}: ${step.message}`);
  if (step.kind === 'abort') return warning(isCopy(move) ? 'CopyAborted' : 'MoveAborted', `${named}: ${step.message}`);
  if (step.kind === 'enter' && step.phase === 'Copying') {
    const [reason, what] = isCopy(move) ? ['CopyStarted', 'source'] : ['MoveStarted', 'volume'];
    return normal(reason, `copying the ${what} from node ${sourceNode} to node ${targetNode}`);
  }
  if (step.kind !== 'finish') return undefined;
  if (isCopy(move)) return normal('VolumeCopied', `${status.message}`);
  const seconds = downtimeSeconds(status);
  return normal(
    'VolumeMoved',
    `${status.message}${seconds === undefined ? '' : `; it could not be used for ${seconds} s`}`,
  );
}

function aboutClaim({ metadata, spec, status }: StoredVolumeMove): About {
  const { namespace } = metadata;
  return { resource: persistentVolumeClaims, namespace, name: spec.claimName, uid: status?.claimUID };
}

function aboutPod({ namespace, name, uid }: Stored<Pod>['metadata']): About {
  return { resource: pods, namespace, name, uid };
}
