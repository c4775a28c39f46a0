import {
  deleting,
  type LogicalVolume,
  logicalVolumes,
  type StoredLogicalVolume,
} from '../../src/api/logical-volume.ts';
import {
  type MovePhase,
  phaseOf,
  type StoredVolumeMove,
  type VolumeMove,
  type VolumeMoveStatus,
  volumeMoves,
} from '../../src/api/volume-move.ts';
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import type { KubeClient } from '../../src/kube/client.ts';
import { Informer } from '../../src/kube/informer.ts';

type Answer = Pick<VolumeMoveStatus, 'source' | 'target'>;

const verdict = { round: 2, bytes: 4096, sha256: 'abc' };

/** What the agents of both nodes report in each phase, without any data. */
const answers: Readonly<Partial<Record<MovePhase, Answer>>> = {
  Copying: { source: { endpoint: 'a:1', certificate: 'A' }, target: { certificate: 'B', round: 1, converged: true } },
  Stopping: { source: { fenced: true } },
  Freezing: { source: { readOnly: true }, target: { verdict } },
  Opening: { target: { opened: true } },
  Cleaning: { source: { released: true } },
  Aborting: { source: { released: true } },
};

/** The agents of all nodes: they create and remove volumes, and move them, at once. */
export class SimulatedMovers {
  readonly #client: KubeClient;
  readonly #volumes: Informer<LogicalVolume>;
  readonly #moves: Informer<VolumeMove>;
  #silentIn: MovePhase | undefined;
  /** LogicalVolumes whose volumes were removed, with their data. */
  readonly removed: string[] = [];

  constructor(client: KubeClient) {
    const common = { client, clock: systemClock, log: silentLog };
    this.#client = client;
    this.#volumes = new Informer({ ...common, resource: logicalVolumes });
    this.#moves = new Informer({ ...common, resource: volumeMoves });
    this.#volumes.onChange(({ kind, object }) => {
      if (kind !== 'deleted') void this.#answerVolume(object).catch(() => {}); // it was answered already
    });
    this.#moves.onChange(({ kind, object }) => {
      if (kind !== 'deleted') void this.#answerMove(object).catch(() => {}); // it is gone
    });
    this.#volumes.start();
    this.#moves.start();
  }

  /** A phase without answers: moves stay in it until this is another one. */
  set silentIn(phase: MovePhase | undefined) {
    this.#silentIn = phase;
    for (const move of this.#moves.list()) void this.#answerMove(move).catch(() => {}); // it is gone
  }

  async stop(): Promise<void> {
    await Promise.all([this.#volumes.stop(), this.#moves.stop()]);
  }

  async #answerVolume(volume: StoredLogicalVolume): Promise<void> {
    const { name, uid } = volume.metadata;
    if (deleting(volume)) {
      const body = { metadata: { uid, finalizers: null } };
      await this.#client.patch(logicalVolumes, name, { type: 'merge', body });
      this.removed.push(name);
    } else if (!volume.status?.volumeID) {
      const body = { metadata: { uid }, status: { volumeID: uid, currentSize: volume.spec.size } };
      await this.#client.patch(logicalVolumes, name, { type: 'merge', body }, { subresource: 'status' });
    }
  }

  async #answerMove(move: StoredVolumeMove): Promise<void> {
    const phase = phaseOf(move);
    const answer = phase === this.#silentIn ? undefined : answers[phase];
    if (!answer || isAnswered(move, answer)) return;
    const { name, namespace } = move.metadata;
    const body = { status: answer };
    await this.#client.patch(volumeMoves, name, { type: 'merge', body }, { namespace, subresource: 'status' });
  }
}

function isAnswered({ status }: VolumeMove, answer: Answer): boolean {
  return (['source', 'target'] as const).every((end) =>
    Object.keys(answer[end] ?? {}).every((key) => key in (status?.[end] ?? {})),
  );
}
