import { type LogicalVolume, type StoredLogicalVolume, volumeIdOf } from '../../api/logical-volume.ts';
import {
  isCopy,
  isOver,
  type MovePhase,
  phaseOf,
  type StoredVolumeMove,
  type VolumeMove,
} from '../../api/volume-move.ts';
import { messageOf } from '../../base/errors.ts';
import { type Aside, Requeue } from '../../base/keyed-queue.ts';
import type { Listeners } from '../../base/listeners.ts';
import type { Log } from '../../base/log.ts';
import type { Work, WorkQueue } from '../../base/work.ts';
import type { VolumeId } from '../../engine/pool.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Informer } from '../../kube/informer.ts';
import { keyOf } from '../../kube/resource.ts';
import type { Copying, MovableVolumes, OfferedVolume } from './copying.ts';
import { MoveWriter } from './move-writer.ts';
import { mustBeMarked } from './must-be-marked.ts';

interface Collaborators {
  readonly client: Pick<KubeClient, 'patch'>;
  /** The moves whose source is this node. */
  readonly moves: Pick<Informer<VolumeMove>, 'get' | 'list' | 'onChange'>;
  /** The LogicalVolumes of this node. */
  readonly volumes: Pick<Informer<LogicalVolume>, 'get' | 'onChange'>;
  readonly movable: MovableVolumes;
  readonly copying: Pick<Copying, 'endpoint' | 'newKey' | 'offer'>;
  /** Volumes that a pod has given back. */
  readonly givenBack: Pick<Listeners<VolumeId>, 'add'>;
  readonly log: Log;
}

interface Offer {
  readonly offered: OfferedVolume;
  readonly served: AsyncDisposable;
}

const serving: ReadonlySet<MovePhase> = new Set(['Copying', 'Stopping', 'Freezing']);
const fenced: ReadonlySet<MovePhase> = new Set([
  'Stopping',
  'Freezing',
  'Committed',
  'Switching',
  'Opening',
  'Cleaning',
]);
const frozen: ReadonlySet<MovePhase> = new Set(['Freezing', 'Committed', 'Switching', 'Opening', 'Cleaning']);

/**
 * The agent's part as the source of moves: serves the volume, closes it to new pods, makes it read-only, and undoes all of
 * it if the move is aborted. The source of a copy stays in use. What it does follows from the phase alone, so that it can
 * begin anywhere after a restart.
 */
export function movesFrom(collaborators: Collaborators): Work {
  const { client, moves, volumes, movable, copying, givenBack, log } = collaborators;
  const writer = new MoveWriter(client, 'source');
  const offers = new Map<string, Offer>();
  const keys = new Map<string, OfferedVolume['own']>();

  const close = async (uid: string): Promise<void> => {
    const offer = offers.get(uid);
    offers.delete(uid);
    await offer?.served[Symbol.asyncDispose]();
  };

  /** The move is over, or this process stops: nobody waits for it. */
  const ended = (uid: string) => {
    close(uid).catch((error: unknown) => log.warn({ move: uid }, `cannot stop serving a volume: ${messageOf(error)}`));
  };

  /** A restarted agent has a new key, and so has its restarted peer. */
  const serve = async (move: StoredVolumeMove, volumeId: VolumeId, signal: AbortSignal): Promise<void> => {
    const { uid: moveUid } = move.metadata;
    const own = keys.get(moveUid) ?? (await copying.newKey());
    keys.set(moveUid, own);
    const { certificate: peerCertificate } = move.status?.target ?? {};
    if (!peerCertificate) return; // the target is first: as soon as it knows where to connect, it does
    const open = offers.get(moveUid);
    if (open?.offered.peerCertificate !== peerCertificate) {
      await close(moveUid);
      const offered: OfferedVolume = { moveUid, volumeId, own, peerCertificate };
      offers.set(moveUid, { offered, served: await copying.offer(offered) });
    }
    await writer.report(move, { certificate: own.cert, endpoint: copying.endpoint }, signal);
  };

  const work = async (move: StoredVolumeMove, volume: StoredLogicalVolume, signal: AbortSignal): Promise<void> => {
    const phase = phaseOf(move);
    if (phase === 'Pending') return; // the controller marks the volume before the next phase
    mustBeMarked('source', move, volume);
    const volumeId = volumeIdOf(volume);
    const { uid } = move.metadata;
    if (serving.has(phase)) await serve(move, volumeId, signal);
    else await close(uid);
    if (fenced.has(phase) && !isCopy(move)) {
      await movable.fence(volumeId, uid, signal);
      await writer.report(move, { fenced: true }, signal);
    }
    if (frozen.has(phase) && !isCopy(move)) {
      await movable.freeze(volumeId, signal);
      await writer.report(move, { readOnly: true }, signal);
    }
    if (phase === 'Cleaning') {
      await movable.endCopy(volumeId, signal);
      await writer.report(move, { released: true }, signal);
    }
    if (phase === 'Aborting') {
      await movable.endCopy(volumeId, signal);
      await movable.unfence(volumeId, uid, signal);
      await writer.report(move, { fenced: false, readOnly: false, released: true }, signal);
    }
  };

  /** Aside: a hung disk must not make this process look stuck. */
  const reconcile = async (key: string, signal: AbortSignal, aside: Aside): Promise<Requeue> => {
    const move = moves.get(key);
    if (!move || isOver(move) || move.status?.source?.released) return Requeue.never;
    const volume = volumes.get(move.status?.sourceVolume ?? '');
    if (volume) await writer.attempt(move, () => aside(work(move, volume, signal)), signal);
    else await close(move.metadata.uid); // it was removed, or is not known yet
    return Requeue.never;
  };

  const watch = (queue: WorkQueue) => [
    moves.onChange(({ kind, key, object }) => {
      if (kind !== 'deleted' && !isOver(object)) return queue.add(key);
      keys.delete(object.metadata.uid);
      ended(object.metadata.uid);
    }),
    // The move may have been known before its volume.
    volumes.onChange(({ object }) => {
      const { name } = object.metadata;
      for (const move of moves.list()) if (move.status?.sourceVolume === name) queue.add(keyOf(move));
    }),
    // The volume may be closed now.
    givenBack.add(() => {
      for (const move of moves.list()) if (phaseOf(move) === 'Freezing') queue.add(keyOf(move));
    }),
    () => {
      for (const uid of [...offers.keys()]) ended(uid);
    },
  ];
  return { name: 'moves-from-here', watch, reconcile, concurrency: 2 };
}
