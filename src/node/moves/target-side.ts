import { bytesOf, type LogicalVolume, volumeIdOf } from '../../api/logical-volume.ts';
import {
  isCopy,
  isOver,
  type MovePhase,
  phaseOf,
  type StoredVolumeMove,
  type VolumeMove,
} from '../../api/volume-move.ts';
import type { Clock } from '../../base/clock.ts';
import { messageOf } from '../../base/errors.ts';
import { type Aside, Requeue } from '../../base/keyed-queue.ts';
import type { Log } from '../../base/log.ts';
import type { Work, WorkQueue } from '../../base/work.ts';
import type { VolumeId } from '../../engine/pool.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Informer } from '../../kube/informer.ts';
import { keyOf } from '../../kube/resource.ts';
import { type CopiedRound, hasConverged } from './convergence.ts';
import type { Copying, MovableVolumes, Pull, PulledRound } from './copying.ts';
import { MoveWriter } from './move-writer.ts';
import { mustBeMarked } from './must-be-marked.ts';

interface Collaborators {
  readonly client: Pick<KubeClient, 'patch'>;
  /** The moves whose target is this node. */
  readonly moves: Pick<Informer<VolumeMove>, 'get' | 'list' | 'onChange'>;
  /** The LogicalVolumes of this node. */
  readonly volumes: Pick<Informer<LogicalVolume>, 'get' | 'onChange'>;
  readonly movable: Pick<MovableVolumes, 'open'>;
  readonly copying: Pick<Copying, 'newKey' | 'pull'>;
  readonly clock: Clock;
  readonly log: Log;
}

/** The copy in this process: what an agent that restarts forgets. */
interface Copy {
  readonly own: Pull['own'];
  readonly rounds: CopiedRound[];
  /** The rounds of an earlier process. */
  readonly roundsBefore: number;
  readonly abort: AbortController;
}

const receiving: ReadonlySet<MovePhase> = new Set(['Copying', 'Stopping', 'Freezing']);

/** The shortest time between two writes of progress. */
const progressMs = 2_000;
/** While the pods are not stopped yet, more changes come: another round now and then keeps the last one short. */
const againMs = 30_000;

/** The agent's part as the target of moves: pulls round after round, says when it is enough, and opens the volume. */
export function movesTo(collaborators: Collaborators): Work {
  const { client, moves, volumes, movable, copying, clock, log } = collaborators;
  const writer = new MoveWriter(client, 'target');
  const copies = new Map<string, Copy>();

  const forget = (uid: string) => {
    copies.get(uid)?.abort.abort();
    copies.delete(uid);
  };

  const copyOf = async ({ metadata: { uid }, status }: StoredVolumeMove): Promise<Copy> => {
    const known = copies.get(uid);
    if (known) return known;
    const roundsBefore = status?.target?.round ?? 0;
    const copy: Copy = { own: await copying.newKey(), rounds: [], roundsBefore, abort: new AbortController() };
    copies.set(uid, copy);
    return copy;
  };

  /** Undefined until the source can be reached. */
  const pull = async (
    move: StoredVolumeMove,
    volumeId: VolumeId,
    kind: Pull['kind'],
    copy: Copy,
    signal: AbortSignal,
    aside: Aside,
  ): Promise<PulledRound | undefined> => {
    const { certificate: peerCertificate, endpoint } = move.status?.source ?? {};
    // A source that knows an earlier certificate of ours would refuse us.
    const isKnown = move.status?.target?.certificate === copy.own.cert;
    if (!isKnown || !peerCertificate || !endpoint) return undefined;
    const { rateLimit } = move.spec;
    const { signal: unwanted } = copy.abort;
    const pulled = await aside(
      copying
        .pull(
          {
            moveUid: move.metadata.uid,
            volumeId,
            endpoint,
            own: copy.own,
            peerCertificate,
            kind,
            bytesPerSecond: rateLimit === undefined ? undefined : Number(bytesOf(rateLimit)),
            onProgress: progressOf(move, roundOf(copy) + 1, signal),
          },
          AbortSignal.any([signal, unwanted]),
        )
        .catch((error: unknown) => {
          if (!unwanted.aborted) throw error; // otherwise the move has ended
          return undefined;
        }),
    );
    if (!pulled) return undefined;
    copy.rounds.push(pulled);
    return pulled;
  };

  /** Written now and then; a write that fails is made up for by the next one. */
  const progressOf = (move: StoredVolumeMove, round: number, signal: AbortSignal): Pull['onProgress'] => {
    let lastMs = Number.NEGATIVE_INFINITY;
    return ({ doneBytes, totalBytes }) => {
      if (clock.monotonic() - lastMs < progressMs) return;
      lastMs = clock.monotonic();
      const problem = move.status?.target?.message && { message: '' }; // it is over
      const progress = { round, copiedBytes: doneBytes, totalBytes, ...problem };
      writer.report(move, progress, signal).catch((error: unknown) => {
        log.debug({ move: move.metadata.name }, `cannot report progress: ${messageOf(error)}`);
      });
    };
  };

  const receive = async (
    move: StoredVolumeMove,
    volumeId: VolumeId,
    signal: AbortSignal,
    aside: Aside,
  ): Promise<Requeue> => {
    const copy = await copyOf(move);
    await writer.report(move, { certificate: copy.own.cert }, signal);
    const { source, target } = move.status ?? {};
    if (isCopy(move)) {
      const whole = target?.converged ? undefined : await pull(move, volumeId, 'whole', copy, signal, aside);
      if (whole) await writer.report(move, { ...finished(whole, copy), converged: true }, signal);
      return Requeue.never;
    }
    if (phaseOf(move) === 'Freezing') {
      if (!source?.readOnly || target?.verdict) return Requeue.never;
      const last = await pull(move, volumeId, 'last', copy, signal, aside);
      if (!last) return Requeue.never;
      const verdict = { round: roundOf(copy), bytes: last.sentBytes, sha256: last.sha256 };
      await writer.report(move, { ...finished(last, copy), verdict }, signal);
      return Requeue.never;
    }
    const round = await pull(move, volumeId, 'next', copy, signal, aside);
    if (!round) return Requeue.never;
    const converged = target?.converged || hasConverged(copy.rounds);
    await writer.report(move, { ...finished(round, copy), ...(converged && { converged }) }, signal);
    return Requeue.after(converged ? againMs : 0);
  };

  const reconcile = async (key: string, signal: AbortSignal, aside: Aside): Promise<Requeue> => {
    const move = moves.get(key);
    const volume = move && volumes.get(move.status?.targetVolume ?? '');
    if (!move || !volume?.status?.volumeID) return Requeue.never;
    const volumeId = volumeIdOf(volume);
    let next: Requeue = Requeue.never;
    await writer.attempt(
      move,
      async () => {
        const isReceiving = receiving.has(phaseOf(move));
        const isOpening = phaseOf(move) === 'Opening' && !move.status?.target?.opened;
        if (isReceiving || isOpening) mustBeMarked('target', move, volume);
        if (isReceiving) next = await receive(move, volumeId, signal, aside);
        if (!isOpening) return;
        await aside(movable.open(volumeId, move.metadata.uid, signal));
        await writer.report(move, { opened: true }, signal);
      },
      signal,
    );
    return next;
  };

  const watch = (queue: WorkQueue) => [
    moves.onChange(({ kind, key, object, previous }) => {
      if (kind === 'deleted' || isOver(object) || !receiving.has(phaseOf(object))) forget(object.metadata.uid);
      if (kind !== 'deleted' && isNews(object, previous)) queue.add(key);
    }),
    // The move may have been known before its volume.
    volumes.onChange(({ object }) => {
      const { name } = object.metadata;
      for (const move of moves.list()) if (move.status?.targetVolume === name) queue.add(keyOf(move));
    }),
    () => {
      for (const uid of [...copies.keys()]) forget(uid);
    },
  ];
  return { name: 'moves-to-here', watch, reconcile, concurrency: 2 };
}

/** Not our own progress: it would start another round at once. */
function isNews(move: StoredVolumeMove, previous: StoredVolumeMove | undefined): boolean {
  const relevant = ({ status }: StoredVolumeMove) => {
    const { certificate, endpoint, readOnly } = status?.source ?? {};
    return JSON.stringify([status?.phase, certificate, endpoint, readOnly, status?.target?.certificate]);
  };
  return !previous || relevant(move) !== relevant(previous);
}

/** The number of the last round that has ended. */
function roundOf({ rounds, roundsBefore }: Copy): number {
  return roundsBefore + rounds.length;
}

function finished({ sentBytes }: PulledRound, copy: Copy) {
  return { round: roundOf(copy), copiedBytes: sentBytes, totalBytes: sentBytes };
}
