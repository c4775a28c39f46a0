import { type ErrorCode, MoorageError } from '../../../src/base/errors.ts';
import type { NewSnapshot, NewVolume, Pool, Volume, VolumeId } from '../../../src/engine/pool.ts';

/** A change of a volume; it can be retried. */
export type Change =
  | { readonly kind: 'create'; readonly wanted: NewVolume }
  | { readonly kind: 'grow'; readonly id: VolumeId; readonly sizeBytes: bigint }
  | { readonly kind: 'tag'; readonly id: VolumeId; readonly tags: readonly string[] }
  | { readonly kind: 'snapshot'; readonly source: VolumeId; readonly wanted: NewSnapshot }
  | { readonly kind: 'remove'; readonly id: VolumeId };

/** The storage engine, as a run of the model uses it. */
export interface Engine {
  change(pool: string, change: Change): Promise<Volume | undefined>;
  list(pool: string): Promise<readonly Volume[]>;
  /** Like a crash: nothing that it began is completed. Its child processes may continue for a moment. */
  kill(): Promise<void>;
}

/** The engine rejected the request. */
export class Refused extends MoorageError {
  readonly code: ErrorCode;
  constructor({ code, message }: { readonly code: ErrorCode; readonly message: string }) {
    super(message);
    this.code = code;
  }
}

/** The engine was killed before it answered. */
export class EngineDied extends MoorageError {
  readonly code = 'Unavailable';
}

const neverAborted = new AbortController().signal;

export async function apply(pool: Pool, change: Change): Promise<Volume | undefined> {
  switch (change.kind) {
    case 'create':
      return pool.create(change.wanted, neverAborted);
    case 'grow':
      return pool.grow(change.id, change.sizeBytes, neverAborted);
    case 'tag':
      return pool.addTags(change.id, change.tags, neverAborted);
    case 'snapshot':
      return pool.snapshot(change.source, change.wanted, neverAborted);
    case 'remove':
      await pool.remove(change.id, neverAborted);
      return undefined;
  }
}
