import { isDeepStrictEqual } from 'node:util';
import { type StoredVolumeMove, type VolumeMoveStatus, volumeMoves } from '../../api/volume-move.ts';
import { messageOf } from '../../base/errors.ts';
import type { KubeClient } from '../../kube/client.ts';
import { shortened } from '../../kube/events.ts';

type End = 'source' | 'target';

/** Enough for any sentence of ours. */
const longestMessageBytes = 1000;

/** What the agent of one end writes into a move: only its own part, and only what is new. */
export class MoveWriter<E extends End> {
  readonly #client: Pick<KubeClient, 'patch'>;
  readonly #end: E;

  constructor(client: Pick<KubeClient, 'patch'>, end: E) {
    this.#client = client;
    this.#end = end;
  }

  async report(
    { metadata, status }: StoredVolumeMove,
    fields: NonNullable<VolumeMoveStatus[E]>,
    signal: AbortSignal,
  ): Promise<void> {
    const known: object = status?.[this.#end] ?? {};
    const isNew = ([key, value]: [string, unknown]) =>
      !isDeepStrictEqual((known as Record<string, unknown>)[key], value);
    const changed = Object.entries(fields).filter(isNew);
    if (changed.length === 0) return;
    const { name, namespace, uid } = metadata;
    const body = { metadata: { uid }, status: { [this.#end]: Object.fromEntries(changed) } };
    await this.#client.patch(volumeMoves, name, { type: 'merge', body }, { namespace, subresource: 'status', signal });
  }

  /** Does the work; if it fails, the move says why, and the error is thrown, so that it is retried. */
  async attempt(move: StoredVolumeMove, work: () => Promise<void>, signal: AbortSignal): Promise<void> {
    const report = (message: string) => this.report(move, { message }, signal);
    try {
      await work();
    } catch (error) {
      if (!signal.aborted) await report(shortened(messageOf(error), longestMessageBytes));
      throw error;
    }
    if (move.status?.[this.#end]?.message) await report('');
  }
}
