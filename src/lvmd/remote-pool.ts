import { isDeepStrictEqual } from 'node:util';
import { codeOf, type ErrorCode, MoorageError } from '../base/errors.ts';
import { Listeners } from '../base/listeners.ts';
import type { Log } from '../base/log.ts';
import type { ChangeTracking } from '../engine/changes/change-tracking.ts';
import type { ErasePolicy } from '../engine/config/device-classes.ts';
import { mustNotBeBound } from '../engine/device-use.ts';
import { policyText } from '../engine/erase/erase-policy.ts';
import { policyOnRemoval } from '../engine/erase/erasure-tags.ts';
import { NotCreatedHere, VolumeExists, VolumeNotFound } from '../engine/errors.ts';
import { createdTag, isCreatedHere } from '../engine/names-and-tags.ts';
import type {
  Capacity,
  Erasure,
  NewSnapshot,
  NewVolume,
  Pool,
  PoolDetails,
  Removal,
  Volume,
  VolumeId,
} from '../engine/pool.ts';
import type { Methods } from '../rpc/client.ts';
import type { LVService, VGService, WatchItem } from '../rpc/gen/lvmd/lvmd_pb.ts';
import type { EngineService, Pool as ReportedPool } from '../rpc/gen/moorage/v1/engine_pb.ts';
import { detailsIn, thinCapacity, toVolume } from './lvmd-answers.ts';

/** The services of an lvmd, ours or TopoLVM's. */
export interface Lvmd {
  readonly volumes: Methods<typeof LVService>;
  readonly groups: Methods<typeof VGService>;
  readonly engine: Methods<typeof EngineService>;
}

/** What a watch reports about a class. */
export type ListAnswer = Pick<WatchItem, 'sizeBytes' | 'freeBytes' | 'thinPool'>;

/** As long as lvmd itself works on one call. */
const timeoutMs = 5 * 60_000;

/**
 * A device class that an lvmd serves. Reads answer from its last known state. After each change the volumes are listed
 * again, because TopoLVM's responses do not contain a volume's device.
 */
export class RemotePool implements Pool {
  readonly name: string;
  readonly #lvmd: Lvmd;
  readonly #log: Log;
  readonly #listeners = new Listeners();
  #capacity: Capacity = { sizeBytes: 0n, freeBytes: 0n };
  #volumes: ReadonlyMap<VolumeId, Volume> = new Map();
  #erasures: readonly Erasure[] = [];
  #details: PoolDetails | undefined;
  #asked = 0;
  #latestAnswer = 0;

  constructor(name: string, lvmd: Lvmd, log: Log) {
    this.name = name;
    this.#lvmd = lvmd;
    this.#log = log.child({ deviceClass: name });
  }

  capacity(): Capacity {
    return this.#capacity;
  }

  list(): readonly Volume[] {
    return [...this.#volumes.values()];
  }

  get(id: VolumeId): Volume | undefined {
    return this.#volumes.get(id);
  }

  /** lvmd erases, and answers a removal only when the erasure is done. TopoLVM's lvmd never erases. */
  erasures(): readonly Erasure[] {
    return this.#erasures;
  }

  details(): PoolDetails | undefined {
    return this.#details;
  }

  /** Changes wait for each other in lvmd, not here. */
  isChanging(): boolean {
    return false;
  }

  onChange(listener: () => void): () => void {
    return this.#listeners.add(listener);
  }

  /** Takes over the capacity that lvmd's watch reports; volumes are listed separately. */
  hear({ sizeBytes, freeBytes, thinPool }: ListAnswer): void {
    this.#capacity = thinPool ? thinCapacity(thinPool) : { sizeBytes, freeBytes };
    this.#listeners.notify();
  }

  /** Takes over what only our own lvmd reports. */
  describe(reported: ReportedPool | undefined): void {
    const erasures =
      reported?.erasures.map(({ name, doneBytes, totalBytes }) => ({ id: name, doneBytes, totalBytes })) ?? [];
    const details = reported && detailsIn(reported);
    if (isDeepStrictEqual([erasures, details], [this.#erasures, this.#details])) return;
    this.#erasures = erasures;
    this.#details = details;
    this.#listeners.notify();
  }

  async refresh(signal: AbortSignal): Promise<void> {
    const turn = ++this.#asked;
    const { volumes } = await this.#lvmd.groups.getLVList({ deviceClass: this.name }, { timeoutMs, signal });
    if (turn < this.#latestAnswer) return; // a later answer arrived first
    this.#latestAnswer = turn;
    this.#volumes = new Map(volumes.map((volume) => [volume.name, toVolume(volume)]));
    this.#listeners.notify();
  }

  async create({ id, sizeBytes, tags, optionClass = '' }: NewVolume, signal: AbortSignal): Promise<Volume> {
    if (this.get(id)) await this.refresh(signal); // memory may be stale
    const existing = this.get(id);
    if (existing) return this.#ours(existing, tags, sizeBytes);
    if (!this.#details) mustNotPromiseErasure(tags);
    const request = {
      name: id,
      sizeBytes,
      tags: [...tags, createdTag],
      deviceClass: this.name,
      lvcreateOptionClass: optionClass,
    };
    try {
      await this.#lvmd.volumes.createLV(request, { timeoutMs, signal });
    } catch (error) {
      // TopoLVM's lvmd answers a retried call with an error.
      const created = await this.#createdBefore(id, error, signal);
      return this.#ours(created, tags, sizeBytes);
    }
    return this.#listAgain(id, signal);
  }

  async grow(id: VolumeId, sizeBytes: bigint, signal: AbortSignal): Promise<Volume> {
    await this.#lvmd.volumes.resizeLV({ name: id, sizeBytes, deviceClass: this.name }, { timeoutMs, signal });
    return this.#listAgain(id, signal);
  }

  async snapshot(source: VolumeId, wanted: NewSnapshot, signal: AbortSignal): Promise<Volume> {
    await this.refresh(signal); // this call did not create what exists now
    const { id, tags, access, sizeBytes = this.get(source)?.sizeBytes ?? 0n } = wanted;
    const existing = this.get(id);
    if (existing) return this.#whole(existing, wanted);
    const request = {
      name: id,
      sourceVolume: source,
      tags: [...tags],
      accessType: access,
      sizeBytes,
      deviceClass: this.name,
    };
    try {
      await this.#lvmd.volumes.createLVSnapshot(request, { timeoutMs, signal });
    } catch (error) {
      return this.#wholeOrCleared(await this.#createdBefore(id, error, signal), wanted, error, signal);
    }
    return this.#listAgain(id, signal);
  }

  async addTags(id: VolumeId, tags: readonly string[], signal: AbortSignal): Promise<Volume> {
    try {
      const request = { name: id, tags: [...tags], deviceClass: this.name };
      await this.#lvmd.engine.addTags(request, { timeoutMs, signal });
    } catch (error) {
      if (codeOf(error) !== 'Unimplemented') throw error;
      mustNotPromiseErasure(tags);
      this.#log.warn(
        { volume: id, tags },
        "TopoLVM's lvmd cannot add tags to a volume, so they are not recorded on disk; use moorage lvmd",
      );
    }
    return this.#listAgain(id, signal);
  }

  async removeTags(): Promise<Volume> {
    throw new MovesUnsupported(this.name);
  }

  async setAccess(): Promise<Volume> {
    throw new MovesUnsupported(this.name);
  }

  trackChanges(): ChangeTracking {
    throw new MovesUnsupported(this.name);
  }

  async remove(id: VolumeId, signal: AbortSignal): Promise<Removal> {
    const known = this.get(id);
    if (known) await mustNotBeBound(id, known.devicePath); // lvmd may not see the mounts that we see
    if (known && !this.#details) mustNotPromiseErasure(known.tags);
    const removal = await this.#removal(id, signal);
    await this.refresh(signal);
    return removal;
  }

  async empty(id: VolumeId, policy: ErasePolicy, signal: AbortSignal): Promise<Volume> {
    const known = this.get(id);
    if (known) await mustNotBeBound(id, known.devicePath); // lvmd may not see the mounts that we see
    try {
      const request = { name: id, deviceClass: this.name, policy: policyText(policy) };
      await this.#lvmd.engine.emptyVolume(request, { timeoutMs, signal });
    } catch (error) {
      throw codeOf(error) === 'Unimplemented' ? new OnlyByMoorage('empty a volume') : error;
    }
    return this.#listAgain(id, signal);
  }

  async #removal(id: VolumeId, signal: AbortSignal): Promise<Removal> {
    try {
      const request = { name: id, deviceClass: this.name };
      const { erased } = await this.#lvmd.volumes.removeLV(request, { timeoutMs, signal });
      return erased ? 'erased' : 'removed';
    } catch (error) {
      if (codeOf(error) === 'NotFound') return 'absent';
      throw error;
    }
  }

  /** A foreign volume with the same name, such as an administrator's, is not the requested one. */
  #ours(existing: Volume, wantedTags: readonly string[], wantedBytes: bigint): Volume {
    if (!isCreatedHere(existing.tags, wantedTags)) throw new NotCreatedHere(this.name, existing.id);
    return this.#fitting(existing, wantedBytes);
  }

  #fitting(existing: Volume, wantedBytes: bigint): Volume {
    if (existing.sizeBytes >= wantedBytes) return existing;
    throw new VolumeExists(this.name, existing.id, existing.sizeBytes, wantedBytes);
  }

  /** Checks that a snapshot is complete: TopoLVM's lvmd creates it first, then grows, protects and activates it. */
  #whole(existing: Volume, { sizeBytes = 0n, access }: NewSnapshot): Volume {
    const isActive = existing.attr[4] === 'a';
    if (existing.readOnly === (access === 'ro') && isActive) return this.#fitting(existing, sizeBytes);
    throw new SnapshotUnfinished(this.name, existing, access);
  }

  /** An unfinished snapshot of this call was never returned to anyone, so it is removed. Any other is kept. */
  async #wholeOrCleared(created: Volume, wanted: NewSnapshot, error: unknown, signal: AbortSignal): Promise<Volume> {
    try {
      return this.#whole(created, wanted);
    } catch (unfinished) {
      const isOurs = codeOf(error) === 'Internal' && wanted.tags.every((tag) => created.tags.includes(tag));
      if (!isOurs) throw unfinished; // another caller created it meanwhile
      this.#log.warn({ volume: created.id }, `lvmd left snapshot ${created.id} unfinished; removing it`);
      await this.remove(created.id, signal);
      throw error;
    }
  }

  /** The volume that an earlier call created; throws the error if there is none. */
  async #createdBefore(id: VolumeId, error: unknown, signal: AbortSignal): Promise<Volume> {
    if (!mayHaveBeenCreated.has(codeOf(error))) throw error;
    await this.refresh(signal);
    const created = this.get(id);
    if (!created) throw error;
    return created;
  }

  async #listAgain(id: VolumeId, signal: AbortSignal): Promise<Volume> {
    await this.refresh(signal);
    const volume = this.get(id);
    if (!volume) throw new VolumeNotFound(this.name, id);
    return volume;
  }
}

/** It may be interrupted, in progress or foreign; these cannot be distinguished. */
class SnapshotUnfinished extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(pool: string, { id, attr }: Volume, access: NewSnapshot['access']) {
    super(
      `snapshot ${id} exists in device class ${pool} but is not active and ${access} (lv_attr ${attr}); ` +
        'look at it with lvs on the node, or create the snapshot with another name',
    );
  }
}

/** TopoLVM's lvmd knows neither our tags nor erasure. */
function mustNotPromiseErasure(tags: readonly string[]): void {
  const { kind } = policyOnRemoval(tags, { kind: 'none' });
  if (kind !== 'none') throw new OnlyByMoorage(`erase a volume (${kind})`);
}

class OnlyByMoorage extends MoorageError {
  readonly code = 'Unimplemented';

  constructor(what: string) {
    super(`the lvmd on this machine cannot ${what}; use a current moorage lvmd`);
  }
}

/** Moves need more of an engine than an lvmd offers. */
class MovesUnsupported extends MoorageError {
  readonly code = 'Unimplemented';

  constructor(pool: string) {
    super(
      `volumes of device class ${pool} cannot be moved, as an lvmd in another process serves it; ` +
        'run the storage engine in the agent, with --embed-lvmd',
    );
  }
}

const mayHaveBeenCreated: ReadonlySet<ErrorCode> = new Set(['AlreadyExists', 'Internal']);
