import type { Clock } from '../base/clock.ts';
import { codeOf, type ErrorCode } from '../base/errors.ts';
import type { ChangeTracking } from './changes/change-tracking.ts';
import type { ErasePolicy } from './config/device-classes.ts';
import type {
  Access,
  Capacity,
  Erasure,
  NewSnapshot,
  NewVolume,
  OpenPool,
  PoolDetails,
  PoolSettings,
  Removal,
  ServedPool,
  Volume,
  VolumeId,
} from './pool.ts';

/** The outcome of a change of a pool, for metrics. */
export interface DoneOperation {
  readonly deviceClass: string;
  readonly operation: 'create' | 'grow' | 'snapshot' | 'add-tags' | 'remove-tags' | 'set-access' | 'remove' | 'empty';
  readonly code: ErrorCode | 'OK';
  readonly durationMs: number;
}

export type OnDone = (operation: DoneOperation) => void;

/** Opens pools like `open`, and reports each of their changes. */
export function observed(open: OpenPool, clock: Clock, onDone: OnDone): OpenPool {
  return async (settings, signal) => new ObservedPool(await open(settings, signal), clock, onDone);
}

class ObservedPool implements ServedPool {
  readonly #pool: ServedPool;
  readonly #clock: Clock;
  readonly #onDone: OnDone;

  constructor(pool: ServedPool, clock: Clock, onDone: OnDone) {
    this.#pool = pool;
    this.#clock = clock;
    this.#onDone = onDone;
  }

  create(wanted: NewVolume, signal: AbortSignal): Promise<Volume> {
    return this.#timed('create', () => this.#pool.create(wanted, signal));
  }

  grow(id: VolumeId, sizeBytes: bigint, signal: AbortSignal): Promise<Volume> {
    return this.#timed('grow', () => this.#pool.grow(id, sizeBytes, signal));
  }

  snapshot(source: VolumeId, wanted: NewSnapshot, signal: AbortSignal): Promise<Volume> {
    return this.#timed('snapshot', () => this.#pool.snapshot(source, wanted, signal));
  }

  addTags(id: VolumeId, tags: readonly string[], signal: AbortSignal): Promise<Volume> {
    return this.#timed('add-tags', () => this.#pool.addTags(id, tags, signal));
  }

  removeTags(id: VolumeId, keys: readonly string[], signal: AbortSignal): Promise<Volume> {
    return this.#timed('remove-tags', () => this.#pool.removeTags(id, keys, signal));
  }

  setAccess(id: VolumeId, access: Access, signal: AbortSignal): Promise<Volume> {
    return this.#timed('set-access', () => this.#pool.setAccess(id, access, signal));
  }

  trackChanges(id: VolumeId): ChangeTracking {
    return this.#pool.trackChanges(id);
  }

  remove(id: VolumeId, signal: AbortSignal): Promise<Removal> {
    return this.#timed('remove', () => this.#pool.remove(id, signal));
  }

  empty(id: VolumeId, policy: ErasePolicy, signal: AbortSignal): Promise<Volume> {
    return this.#timed('empty', () => this.#pool.empty(id, policy, signal));
  }

  get name(): string {
    return this.#pool.name;
  }

  capacity(): Capacity {
    return this.#pool.capacity();
  }

  list(): readonly Volume[] {
    return this.#pool.list();
  }

  get(id: VolumeId): Volume | undefined {
    return this.#pool.get(id);
  }

  erasures(): readonly Erasure[] {
    return this.#pool.erasures();
  }

  details(): PoolDetails | undefined {
    return this.#pool.details();
  }

  isChanging(): boolean {
    return this.#pool.isChanging();
  }

  refresh(signal: AbortSignal): Promise<void> {
    return this.#pool.refresh(signal);
  }

  onChange(listener: () => void): () => void {
    return this.#pool.onChange(listener);
  }

  reconfigure(settings: PoolSettings): void {
    this.#pool.reconfigure(settings);
  }

  stop(graceMs: number): Promise<void> {
    return this.#pool.stop(graceMs);
  }

  async #timed<T>(operation: DoneOperation['operation'], work: () => Promise<T>): Promise<T> {
    const startedMs = this.#clock.monotonic();
    let code: DoneOperation['code'] = 'OK';
    try {
      return await work();
    } catch (error) {
      code = codeOf(error);
      throw error;
    } finally {
      this.#onDone({ deviceClass: this.name, operation, code, durationMs: this.#clock.monotonic() - startedMs });
    }
  }
}
