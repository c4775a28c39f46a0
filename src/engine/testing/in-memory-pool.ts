import type { ChangeTracking } from '../changes/change-tracking.ts';
import { HashTracking } from '../changes/hash-tracking.ts';
import type { ErasePolicy } from '../config/device-classes.ts';
import { emptiedTags, policyOnRemoval } from '../erase/erasure-tags.ts';
import { PoolFull, SnapshotTooSmall, VolumeNotFound } from '../errors.ts';
import { withAddedTags, withoutMoveTags } from '../names-and-tags.ts';
import type {
  Access,
  Capacity,
  Erasure,
  NewSnapshot,
  NewVolume,
  Pool,
  PoolDetails,
  Removal,
  Volume,
  VolumeId,
} from '../pool.ts';

/** For tests: a pool without a disk. Its next command fails with `failure`, if set. */
export class InMemoryPool implements Pool {
  readonly name: string;
  readonly #sizeBytes: bigint;
  readonly #volumes = new Map<VolumeId, Volume>();
  readonly #listeners = new Set<() => void>();
  failure: Error | undefined;
  /** The result of `erasures`. */
  erasing: readonly Erasure[] = [];
  /** The calls of `empty`. */
  readonly emptied: { readonly id: VolumeId; readonly policy: ErasePolicy }[] = [];
  /** Whether a removal reports that it erased. */
  erases = false;

  constructor(name: string, sizeBytes: bigint) {
    this.name = name;
    this.#sizeBytes = sizeBytes;
  }

  capacity(): Capacity {
    return { sizeBytes: this.#sizeBytes, freeBytes: this.#sizeBytes - this.#usedBytes };
  }

  list(): readonly Volume[] {
    return [...this.#volumes.values()];
  }

  get(id: VolumeId): Volume | undefined {
    return this.#volumes.get(id);
  }

  erasures(): readonly Erasure[] {
    return this.erasing;
  }

  details(): PoolDetails {
    return {
      type: 'thick',
      isDefault: false,
      volumeGroup: `vg-${this.name}`,
      volumeGroupUuid: `uuid-${this.name}`,
      spareBytes: 0n,
      usedBytes: this.#usedBytes,
    };
  }

  isChanging(): boolean {
    return false;
  }

  async create({ id, sizeBytes, tags }: NewVolume): Promise<Volume> {
    this.#failIfAsked();
    const existing = this.#volumes.get(id);
    if (existing) return existing;
    const { freeBytes } = this.capacity();
    if (sizeBytes > freeBytes) throw new PoolFull(this.name, sizeBytes, freeBytes);
    return this.#put(this.#writable(id, sizeBytes, tags));
  }

  async grow(id: VolumeId, sizeBytes: bigint): Promise<Volume> {
    const volume = this.#must(id);
    const { freeBytes } = this.capacity();
    const moreBytes = sizeBytes - volume.sizeBytes;
    if (moreBytes <= 0n) return volume;
    if (moreBytes > freeBytes) throw new PoolFull(this.name, moreBytes, freeBytes);
    return this.#put({ ...volume, sizeBytes });
  }

  async addTags(id: VolumeId, tags: readonly string[]): Promise<Volume> {
    const volume = this.#must(id);
    return this.#put({ ...volume, tags: withAddedTags(volume.tags, tags) });
  }

  async removeTags(id: VolumeId, keys: readonly string[]): Promise<Volume> {
    const volume = this.#must(id);
    return this.#put({ ...volume, tags: withoutMoveTags(volume.tags, keys) });
  }

  async setAccess(id: VolumeId, access: Access): Promise<Volume> {
    this.#failIfAsked();
    return this.#put({ ...this.#must(id), readOnly: access === 'ro' });
  }

  trackChanges(id: VolumeId): ChangeTracking {
    return new HashTracking(() => this.#must(id));
  }

  async snapshot(source: VolumeId, { id, sizeBytes, tags, access }: NewSnapshot): Promise<Volume> {
    this.#failIfAsked();
    const existing = this.#volumes.get(id);
    if (existing) return existing;
    const sourceBytes = this.#must(source).sizeBytes;
    const wantedBytes = sizeBytes ?? sourceBytes;
    if (wantedBytes < sourceBytes) throw new SnapshotTooSmall(id, sourceBytes, wantedBytes);
    return this.#put({ ...this.#writable(id, wantedBytes, tags), readOnly: access === 'ro', origin: source });
  }

  async remove(id: VolumeId): Promise<Removal> {
    this.#failIfAsked();
    const { tags = [] } = this.#volumes.get(id) ?? {};
    if (!this.#volumes.delete(id)) return 'absent';
    this.#changed();
    return policyOnRemoval(tags, { kind: this.erases ? 'zero' : 'none' }).kind === 'none' ? 'removed' : 'erased';
  }

  async empty(id: VolumeId, policy: ErasePolicy): Promise<Volume> {
    this.#failIfAsked();
    const volume = this.#must(id);
    this.emptied.push({ id, policy });
    return this.#put({ ...volume, tags: emptiedTags(volume.tags) });
  }

  async refresh(): Promise<void> {}

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  get #usedBytes(): bigint {
    return this.list().reduce((sum, volume) => sum + volume.sizeBytes, 0n);
  }

  #put(volume: Volume): Volume {
    this.#volumes.set(volume.id, volume);
    this.#changed();
    return volume;
  }

  #writable(id: VolumeId, sizeBytes: bigint, tags: readonly string[]): Volume {
    return { id, sizeBytes, devicePath: `/dev/${this.name}/${id}`, tags, readOnly: false, attr: '-wi-a-----' };
  }

  #must(id: VolumeId): Volume {
    const volume = this.#volumes.get(id);
    if (!volume) throw new VolumeNotFound(this.name, id);
    return volume;
  }

  #changed(): void {
    for (const listener of this.#listeners) listener();
  }

  #failIfAsked(): void {
    const { failure } = this;
    this.failure = undefined;
    if (failure) throw failure;
  }
}
