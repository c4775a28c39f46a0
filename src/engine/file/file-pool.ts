import { messageOf } from '../../base/errors.ts';
import type { Run } from '../../base/exec.ts';
import type { Log } from '../../base/log.ts';
import type { ChangeTracking } from '../changes/change-tracking.ts';
import { CheckpointTracking } from '../changes/checkpoint-tracking.ts';
import { detailsOf, type ErasePolicy, type FileClass } from '../config/device-classes.ts';
import { mustBeErasable, mustStandAlone } from '../erase/erasable.ts';
import { mustDestroyData } from '../erase/erase-policy.ts';
import { erasureIn, policyOnRemoval } from '../erase/erasure-tags.ts';
import type { Erasures } from '../erase/erasures.ts';
import * as errors from '../errors.ts';
import {
  checkAddedTags,
  checkNewTags,
  checkNewVolume,
  checkVolumeId,
  newVolumeTags,
  sourceIn,
  withAddedTags,
  withoutMoveTags,
} from '../names-and-tags.ts';
import type {
  Access,
  Capacity,
  Erasure,
  NewSnapshot,
  NewVolume,
  PoolDetails,
  PoolSettings,
  Removal,
  ServedPool,
  Volume,
  VolumeId,
} from '../pool.ts';
import { AttachedVolumes, type FileVolume } from './attached-volumes.ts';
import { DirectoryChanges } from './directory-changes.ts';
import { DirectorySpace } from './directory-space.ts';
import { FileCheckpoints } from './file-checkpoints.ts';
import { FileCopies } from './file-copies.ts';
import { FileErasure } from './file-erasure.ts';
import { LoopDevices } from './loop-devices.ts';
import { PoolMarker } from './pool-marker.ts';
import { VolumeFiles } from './volume-files.ts';

export interface FilePoolOptions {
  readonly deviceClass: FileClass;
  readonly erasures: Erasures;
  /** On the node's own disk; records that the directory was used. */
  readonly stateDirectory: string;
  readonly run: Run;
  readonly log: Log;
}

/** A unit that every filesystem and disk can allocate. */
const granuleBytes = 4096n;

/**
 * Volumes as preallocated files in one directory, each on a loop device. It needs neither a spare disk nor device mapper.
 * The directory is the source of truth. No other process may change it meanwhile.
 */
export class FilePool implements ServedPool {
  readonly name: string;
  readonly #marker: PoolMarker;
  readonly #files: VolumeFiles;
  readonly #loops: LoopDevices;
  readonly #erasures: Erasures;
  readonly #run: Run;
  readonly #log: Log;
  readonly #volumes: AttachedVolumes;
  readonly #space: DirectorySpace;
  readonly #changes: DirectoryChanges;
  readonly #erasure: FileErasure;
  readonly #copies: FileCopies;
  #class: FileClass;

  private constructor({ deviceClass, erasures, stateDirectory, run, log }: FilePoolOptions) {
    const { name, path, erase: policy } = deviceClass;
    const marker = new PoolMarker(path, stateDirectory);
    const files = new VolumeFiles(path, run);
    const loops = new LoopDevices(run);
    const volumes = new AttachedVolumes(files, loops, run);
    const space = new DirectorySpace(files);
    const changes = new DirectoryChanges({ deviceClass: name, marker, volumes, space });
    const erasure = new FileErasure({ files, volumes, erasures, changes, policy });
    this.name = name;
    this.#class = deviceClass;
    this.#marker = marker;
    this.#files = files;
    this.#loops = loops;
    this.#volumes = volumes;
    this.#space = space;
    this.#changes = changes;
    this.#erasures = erasures;
    this.#erasure = erasure;
    this.#run = run;
    this.#log = log.child({ deviceClass: name, path });
    this.#copies = new FileCopies({ files, loops, volumes, changes, erasure, run, log: this.#log });
  }

  /** Reads the directory, removes what a crash left unfinished, attaches what a reboot detached, thaws, and resumes erasures. */
  static async open(options: FilePoolOptions, signal: AbortSignal): Promise<FilePool> {
    const pool = new FilePool(options);
    const { path, name, erase } = options.deviceClass;
    try {
      await pool.#marker.prove();
      await pool.#files.restrictAccess();
      await pool.#erasure.markDrafts();
      await pool.#files.removeUnfinished();
    } catch (cause) {
      if (cause instanceof errors.PoolMissing) throw cause;
      throw new errors.PoolMissing(
        `cannot read directory ${path} of device class ${name} (${messageOf(cause)}); create it, or correct path`,
        { cause },
      );
    }
    await mustBeErasable({ kind: 'file', path }, erase);
    await pool.refresh(signal);
    await pool.#copies.thawAll();
    return pool;
  }

  reconfigure({ deviceClass }: PoolSettings): void {
    if (deviceClass.type === 'file') this.#class = deviceClass;
    this.#erasure.policy = this.#class.erase;
    this.#changes.notify();
  }

  async stop(graceMs: number): Promise<void> {
    await this.#erasures.stop(graceMs);
    await this.#changes.stop();
    await this.#copies.inProgress.stop();
    await this.#loops.releaseAll();
  }

  capacity(): Capacity {
    const { sizeBytes, freeBytes } = this.#space.measured;
    if (this.#marker.problem !== undefined) return { sizeBytes, freeBytes: 0n };
    const unspared = freeBytes - this.#class.spareBytes;
    return { sizeBytes, freeBytes: unspared > 0n ? unspared : 0n };
  }

  list(): readonly Volume[] {
    return this.#volumes.list();
  }

  get(id: VolumeId): Volume | undefined {
    return this.#volumes.get(id);
  }

  erasures(): readonly Erasure[] {
    return this.#erasures.list();
  }

  details(): PoolDetails {
    const { sizeBytes, freeBytes } = this.#space.measured;
    const { problem } = this.#marker;
    return {
      ...detailsOf(this.#class),
      usedBytes: sizeBytes - freeBytes,
      ...(problem !== undefined && { problem }),
    };
  }

  isChanging(): boolean {
    return this.#changes.isChanging;
  }

  onChange(listener: () => void): () => void {
    return this.#changes.onChange(listener);
  }

  /** Reads the directory again. A volume that cannot be attached is left out; the others are served. */
  async refresh(signal: AbortSignal): Promise<void> {
    await this.#changes.alone(signal, async () => {
      const ids = await this.#files.list();
      const attached = await this.#loops.find(
        ids.map((id) => this.#files.imagePath(id)),
        signal,
      );
      for (const { id } of this.#volumes.list()) if (!ids.includes(id)) await this.#volumes.forget(id);
      for (const id of ids) {
        try {
          const label = await this.#files.label(id);
          if (erasureIn(label.tags)) await this.#erasure.resume(id, label);
          else await this.#volumes.add(id, label, attached.get(this.#files.imagePath(id)), signal);
        } catch (error) {
          signal.throwIfAborted();
          await this.#volumes.forget(id);
          this.#log.error({ err: error, volume: id }, `cannot serve volume ${id}: ${messageOf(error)}`);
        }
      }
    });
  }

  async create(wanted: NewVolume, signal: AbortSignal): Promise<Volume> {
    checkNewVolume(wanted);
    return this.#changes.run(signal, async () => {
      this.#mustNotBeErased(wanted.id);
      if (this.#copies.inProgress.get(wanted.id)) throw new errors.NameTaken(this.name, wanted.id, undefined);
      if (!(await this.#files.has(wanted.id))) {
        const sizeBytes = roundUp(wanted.sizeBytes);
        await this.#mustFit(sizeBytes);
        const label = { tags: newVolumeTags(wanted), readOnly: false, family: wanted.id };
        await this.#files.create(wanted.id, sizeBytes, label, signal);
      }
      return this.#mustBe(wanted.id, wanted.sizeBytes, undefined, signal);
    });
  }

  async grow(id: VolumeId, sizeBytes: bigint, signal: AbortSignal): Promise<Volume> {
    return this.#changes.run(signal, async () => {
      const volume = this.#mustHave(id);
      if (volume.sizeBytes < sizeBytes) {
        await this.#mustNotBeMoving(id);
        const grownBytes = roundUp(sizeBytes);
        await this.#mustFit(grownBytes - volume.sizeBytes);
        await this.#files.grow(id, volume.sizeBytes, grownBytes, signal);
      }
      await this.#loops.updateSize(volume.devicePath, signal); // also after a crash that left only the file grown
      return this.#volumes.add(id, await this.#files.label(id), volume.devicePath, signal);
    });
  }

  async addTags(id: VolumeId, tags: readonly string[], signal: AbortSignal): Promise<Volume> {
    checkAddedTags(tags);
    return this.#setTags(id, signal, (before) => withAddedTags(before, tags));
  }

  async removeTags(id: VolumeId, keys: readonly string[], signal: AbortSignal): Promise<Volume> {
    return this.#setTags(id, signal, (before) => withoutMoveTags(before, keys));
  }

  async setAccess(id: VolumeId, access: Access, signal: AbortSignal): Promise<Volume> {
    return this.#changes.run(signal, async () => {
      const volume = this.#mustHave(id);
      if (volume.readOnly === (access === 'ro')) return volume;
      // Also by an encrypted volume on it, which a detach would close.
      if (await this.#loops.isHeld(volume.devicePath)) throw new errors.VolumeOpen(id, volume.devicePath);
      return this.#volumes.reattach(volume, { readOnly: access === 'ro' }, signal);
    });
  }

  trackChanges(id: VolumeId): ChangeTracking {
    const [files, loops, changes, copies] = [this.#files, this.#loops, this.#changes, this.#copies];
    const volume = () => this.#mustHave(id);
    const checkpoints = new FileCheckpoints(id, {
      ...{ volume, files, loops, changes, copies, run: this.#run },
      mustFit: (sizeBytes) => this.#mustFit(sizeBytes),
      erase: () => policyOnRemoval(volume().tags, this.#class.erase),
    });
    return new CheckpointTracking({ checkpoints, volume, log: this.#log });
  }

  async snapshot(source: VolumeId, wanted: NewSnapshot, signal: AbortSignal): Promise<Volume> {
    checkVolumeId(wanted.id);
    checkNewTags(wanted.tags);
    const created = await this.#changes.run(signal, async () => {
      this.#mustNotBeErased(wanted.id);
      const original = this.#mustHave(source);
      const sizeBytes = roundUp(wanted.sizeBytes ?? original.sizeBytes);
      if (!this.#copies.inProgress.get(wanted.id) && !(await this.#files.has(wanted.id))) {
        if (sizeBytes < original.sizeBytes) throw new errors.SnapshotTooSmall(wanted.id, original.sizeBytes, sizeBytes);
        await this.#mustFit(sizeBytes);
        await this.#copies.create(original, wanted, sizeBytes, signal);
      }
      return this.#copies.inProgress.get(wanted.id) ?? (await this.#mustBe(wanted.id, sizeBytes, source, signal));
    });
    if (!('whole' in created)) return created;
    if (created.source !== source) throw new errors.NameTaken(this.name, wanted.id, source);
    await this.#copies.inProgress.join(created, signal);
    return this.#changes.run(signal, () => this.#mustBe(wanted.id, roundUp(wanted.sizeBytes ?? 0n), source, signal));
  }

  async remove(id: VolumeId, signal: AbortSignal): Promise<Removal> {
    checkVolumeId(id); // it becomes a file name
    if (this.#erasures.isEmptying(id)) await this.#erasures.join(id, signal);
    const wasBegun = await this.#copies.inProgress.cancel(id);
    let found: Removal = this.#erasures.has(id) ? 'erased' : 'absent';
    if (found === 'absent') {
      await this.#changes.run(signal, async () => {
        this.#mustNotBeBeingCopied(id);
        await this.#mustNotBeMoving(id);
        const isThere = await this.#files.has(id);
        if (wasBegun || isThere) found = 'removed';
        const remove = () => this.#erasure.remove(id);
        if (isThere ? await this.#detached(id, remove, signal) : await remove()) found = 'erased';
        await this.#volumes.forget(id);
        this.#volumes.forgetOrigin(id);
      });
    }
    await this.#erasures.join(id, signal);
    return found;
  }

  async empty(id: VolumeId, policy: ErasePolicy, signal: AbortSignal): Promise<Volume> {
    mustDestroyData(policy);
    await this.#changes.run(signal, async () => {
      if (this.#erasures.isEmptying(id)) return; // by an earlier call
      const { tags, readOnly } = this.#mustHave(id);
      mustStandAlone(id, { source: sourceIn(tags), readOnly });
      this.#mustNotBeBeingCopied(id);
      await this.#mustNotBeMoving(id);
      await this.#detached(id, () => this.#erasure.empty(id, policy), signal);
    });
    await this.#erasures.join(id, signal);
    return this.#mustHave(id);
  }

  /** Within a change: detaches the volume for work on its file. If that fails, the volume is attached again. */
  async #detached<T>(id: VolumeId, work: () => Promise<T>, signal: AbortSignal): Promise<T> {
    await this.#volumes.detach(id, signal);
    try {
      return await work();
    } catch (error) {
      if (this.#volumes.get(id)) await this.#volumes.find(id, signal); // its old device may be attached to another file by now
      throw error;
    }
  }

  #mustNotBeBeingCopied(id: VolumeId): void {
    const reader = this.#copies.inProgress.readerOf(id);
    if (reader !== undefined) throw new errors.VolumeBeingCopied(id, reader);
  }

  /** The volume with this name. If an earlier call created it, it must match this request. */
  async #mustBe(id: VolumeId, wantedBytes: bigint, origin: VolumeId | undefined, signal: AbortSignal): Promise<Volume> {
    const volume = this.#volumes.get(id) ?? (await this.#volumes.find(id, signal));
    if (volume.origin !== origin) throw new errors.NameTaken(this.name, id, origin);
    if (volume.sizeBytes < wantedBytes) throw new errors.VolumeExists(this.name, id, volume.sizeBytes, wantedBytes);
    return volume;
  }

  async #mustFit(sizeBytes: bigint): Promise<void> {
    await this.#space.measure(this.#volumes.list());
    const { freeBytes } = this.capacity();
    if (sizeBytes > freeBytes) throw new errors.PoolFull(this.name, sizeBytes, freeBytes);
  }

  #mustHave(id: VolumeId): FileVolume {
    const volume = this.#volumes.get(id);
    if (volume) return volume;
    this.#mustNotBeErased(id);
    throw new errors.VolumeNotFound(this.name, id);
  }

  async #setTags(
    id: VolumeId,
    signal: AbortSignal,
    change: (tags: readonly string[]) => readonly string[],
  ): Promise<Volume> {
    return this.#changes.run(signal, async () => {
      const volume = this.#mustHave(id);
      const before = await this.#files.label(id);
      const label = { ...before, tags: change(before.tags) };
      await this.#files.writeLabel(id, label);
      return this.#volumes.add(id, label, volume.devicePath, signal);
    });
  }

  /** While a volume is moved, its checkpoints depend on it and on its size. */
  async #mustNotBeMoving(id: VolumeId): Promise<void> {
    const checkpoints = await this.#files.listCheckpoints();
    if (checkpoints.some(({ volume }) => volume === id)) throw new errors.VolumeBeingMoved(id);
  }

  #mustNotBeErased(id: VolumeId): void {
    if (this.#erasures.has(id)) throw new errors.VolumeBeingErased(id);
  }
}

function roundUp(sizeBytes: bigint): bigint {
  return ((sizeBytes + granuleBytes - 1n) / granuleBytes) * granuleBytes;
}
