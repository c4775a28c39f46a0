import { bytesOf, type LogicalVolume, volumeIdOf } from '../../api/logical-volume.ts';
import { isOver, type MovePhase, phaseOf, type StoredVolumeMove, type VolumeMove } from '../../api/volume-move.ts';
import type { Clock } from '../../base/clock.ts';
import { messageOf } from '../../base/errors.ts';
import { type Aside, Requeue } from '../../base/keyed-queue.ts';
import type { Log } from '../../base/log.ts';
import type { Work, WorkQueue } from '../../base/work.ts';
import type { VolumeId } from '../../engine/pool.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Informer } from '../../kube/informer.ts';
import { type CopiedRound, hasConverged } from './convergence.ts';
import { MoveWriter } from './move-writer.ts';
import type { MovableVolumes, Mover, Peer, PulledRound, RoundProgress } from './mover.ts';

interface Collaborators {
  readonly client: Pick<KubeClient, 'patch'>;
  /** The moves whose target is this node. */
  readonly moves: Pick<Informer<VolumeMove>, 'get' | 'onChange'>;
  /** The LogicalVolumes of this node. */
  readonly volumes: Pick<Informer<LogicalVolume>, 'get'>;
  readonly movable: Pick<MovableVolumes, 'open'>;
  readonly mover: Pick<Mover, 'newKey' | 'pull'>;
  readonly clock: Clock;
  readonly log: Log;
}

/** The copy in this process: what an agent that restarts forgets. */
interface Copy {
  readonly own: Peer['own'];
  readonly rounds: CopiedRound[];
  /** All rounds together. */
  bytes: bigint;
  readonly abort: AbortController;
}

const receiving: ReadonlySet<MovePhase> = new Set(['Copying', 'Stopping', 'Freezing']);

/** The shortest time between two writes of progress. */
const progressMs = 2_000;
/** While the pods are not stopped yet, more changes come: another round now and then keeps the last one short. */
const againMs = 30_000;

/** The agent's part as the target of moves: pulls round after round, says when it is enough, and opens the volume. */
export function movesTo(collaborators: Collaborators): Work {
  const { client, moves, volumes, movable, mover, clock, log } = collaborators;
  const writer = new MoveWriter(client, 'target');
  const copies = new Map<string, Copy>();

  const forget = (uid: string) => {
    copies.get(uid)?.abort.abort();
    copies.delete(uid);
  };

  const copyOf = async (uid: string): Promise<Copy> => {
    const known = copies.get(uid);
    if (known) return known;
    const copy: Copy = { own: await mover.newKey(), rounds: [], bytes: 0n, abort: new AbortController() };
    copies.set(uid, copy);
    return copy;
  };

  /** Undefined until the source can be reached. */
  const pull = async (
    move: StoredVolumeMove,
    volumeId: VolumeId,
    round: 'next' | 'last',
    copy: Copy,
    signal: AbortSignal,
    aside: Aside,
  ): Promise<PulledRound | undefined> => {
    const { certificate: peerCertificate, endpoint } = move.status?.source ?? {};
    // A source that knows an earlier certificate of ours would refuse us.
    const isKnown = move.status?.target?.certificate === copy.own.cert;
    if (!isKnown || !peerCertificate || !endpoint) return undefined;
    const startedMs = clock.now();
    const { rateLimit } = move.spec;
    const { signal: unwanted } = copy.abort;
    const pulled = await aside(
      mover
        .pull(
          {
            moveUid: move.metadata.uid,
            volumeId,
            endpoint,
            own: copy.own,
            peerCertificate,
            round,
            bytesPerSecond: rateLimit === undefined ? undefined : bytesOf(rateLimit),
            onProgress: progressOf(move, signal),
          },
          AbortSignal.any([signal, unwanted]),
        )
        .catch((error: unknown) => {
          if (!unwanted.aborted) throw error; // otherwise the move has ended
          return undefined;
        }),
    );
    if (!pulled) return undefined;
    copy.rounds.push({ bytes: pulled.bytes, ms: clock.now() - startedMs });
    copy.bytes += pulled.bytes;
    return pulled;
  };

  /** Written now and then; a write that fails is made up for by the next one. */
  const progressOf = (move: StoredVolumeMove, signal: AbortSignal) => {
    let lastMs = Number.NEGATIVE_INFINITY;
    return ({ round, copiedBytes, totalBytes }: RoundProgress) => {
      if (clock.now() - lastMs < progressMs) return;
      lastMs = clock.now();
      const progress = { round, copiedBytes: Number(copiedBytes), totalBytes: Number(totalBytes) };
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
    const copy = await copyOf(move.metadata.uid);
    await writer.report(move, { certificate: copy.own.cert }, signal);
    const { source, target } = move.status ?? {};
    if (phaseOf(move) === 'Freezing') {
      if (!source?.readOnly || target?.verdict) return Requeue.never;
      const last = await pull(move, volumeId, 'last', copy, signal, aside);
      if (!last) return Requeue.never;
      const verdict = { round: last.round, bytes: Number(copy.bytes), sha256: last.sha256 };
      await writer.report(move, { ...finished(last), verdict }, signal);
      return Requeue.never;
    }
    const round = await pull(move, volumeId, 'next', copy, signal, aside);
    if (!round) return Requeue.never;
    const converged = target?.converged || hasConverged(copy.rounds);
    await writer.report(move, { ...finished(round), ...(converged && { converged }) }, signal);
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
        if (receiving.has(phaseOf(move))) next = await receive(move, volumeId, signal, aside);
        if (phaseOf(move) !== 'Opening' || move.status?.target?.opened) return;
        await movable.open(volumeId, move.metadata.uid, move.status?.source?.tags ?? [], signal);
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

function finished({ round, bytes }: PulledRound) {
  return { round, copiedBytes: Number(bytes), totalBytes: Number(bytes) };
}
