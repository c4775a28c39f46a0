import { messageOf } from '../../base/errors.ts';
import type { Run } from '../../base/exec.ts';
import { KeyedLock } from '../../base/keyed-lock.ts';
import type { Log } from '../../base/log.ts';
import { ChangeListeners } from '../change-listeners.ts';
import type { FileClass } from '../device-classes.ts';
import { mustBeErasable } from '../eraser.ts';
import { ErasureCalledOff, erasureIn, erasureTags, isErasureTag, isProgressTag, progressTag } from '../erasure.ts';
import type { Erasures } from '../erasures.ts';
import * as errors from '../errors.ts';
import { luksDevicePath } from '../luks.ts';
import type { Capacity, Erasure, NewSnapshot, NewVolume, Volume, VolumeId } from '../pool.ts';
import type { PoolSettings, ServedPool } from '../served-pool.ts';
import { contentTags, createdTag, sourceTag } from '../tags.ts';
import { checkAddedTags, checkNewTags, checkNewVolume, checkVolumeId } from '../volume-id.ts';
import { LoopDevices } from './loop-devices.ts';
import { reflink } from './reflink.ts';
import { roomToCome } from './room-to-come.ts';
import { type Label, VolumeFiles } from './volume-files.ts';

export interface FilePoolOptions {
  readonly deviceClass: FileClass;
  readonly erasures: Erasures;
  readonly run: Run;
  readonly log: Log;
}

/** A volume, and the family of copies that it may share blocks with. */
interface FileVolume extends Volume {
  readonly family: VolumeId;
}

/** What every filesystem and every disk can cut. */
const granuleBytes = 4096n;

/**
 * Volumes as preallocated files in one directory, each on a loop device. It needs neither a spare disk nor device mapper.
 * The directory is the truth; memory follows it. Another process must not change the directory meanwhile.
 */
export class FilePool implements ServedPool {
  readonly name: string;
  readonly #files: VolumeFiles;
  readonly #loops: LoopDevices;
  readonly #erasures: Erasures;
  readonly #run: Run;
  readonly #log: Log;
  readonly #lock = new KeyedLock();
  readonly #listeners = new ChangeListeners();
  readonly #volumes = new Map<VolumeId, FileVolume>();
  #class: FileClass;
  /** The directory may have another pool now. */
  #isStopped = false;
  #isChanging = false;
  /** Of what is free, only what no volume was promised. */
  #space: Capacity = { sizeBytes: 0n, freeBytes: 0n };

  private constructor({ deviceClass, erasures, run, log }: FilePoolOptions) {
    this.name = deviceClass.name;
    this.#class = deviceClass;
    this.#files = new VolumeFiles(deviceClass.path, run);
    this.#loops = new LoopDevices(run);
    this.#erasures = erasures;
    this.#run = run;
    this.#log = log.child({ deviceClass: deviceClass.name, path: deviceClass.path });
  }

  /** Reads the directory, clears away what a crash left half-made, attaches what a reboot detached, and goes on erasing. */
  static async open(options: FilePoolOptions, signal: AbortSignal): Promise<FilePool> {
    const pool = new FilePool(options);
    const { path, name, erase } = options.deviceClass;
    try {
      await pool.#files.removeUnfinished();
    } catch (cause) {
      throw new errors.PoolMissing(
        `directory ${path} of device class ${name} cannot be read (${messageOf(cause)}); create it, or correct path`,
        { cause },
      );
    }
    await mustBeErasable({ kind: 'file', path }, erase);
    await pool.refresh(signal);
    return pool;
  }

  reconfigure({ deviceClass }: PoolSettings): void {
    if (deviceClass.type === 'file') this.#class = deviceClass;
    this.#listeners.notify();
  }

  async stop(graceMs: number): Promise<void> {
    await this.#erasures.stop(graceMs);
    await this.#lock.run('directory', neverAborted, async () => {
      this.#isStopped = true;
    });
    await this.#loops.releaseAll();
  }

  capacity(): Capacity {
    const { sizeBytes, freeBytes } = this.#space;
    const unspared = freeBytes - this.#class.spareBytes;
    return { sizeBytes, freeBytes: unspared > 0n ? unspared : 0n };
  }

  list(): readonly Volume[] {
    return [...this.#volumes.values()];
  }

  get(id: VolumeId): Volume | undefined {
    return this.#volumes.get(id);
  }

  erasures(): readonly Erasure[] {
    return this.#erasures.list();
  }

  isChanging(): boolean {
    return this.#isChanging;
  }

  onChange(listener: () => void): () => void {
    return this.#listeners.add(listener);
  }

  /** Reads the directory anew. A volume that cannot be attached is left out, and the others are served. */
  async refresh(signal: AbortSignal): Promise<void> {
    await this.#alone(signal, async () => {
      const ids = await this.#files.list();
      const attached = await this.#loops.find(
        ids.map((id) => this.#files.imagePath(id)),
        signal,
      );
      for (const id of this.#volumes.keys()) if (!ids.includes(id)) await this.#forget(id);
      for (const id of ids) {
        try {
          const label = await this.#files.label(id);
          if (erasureIn(label.tags)) await this.#erase(id, label);
          else await this.#serve(id, label, attached.get(this.#files.imagePath(id)), signal);
        } catch (error) {
          signal.throwIfAborted();
          await this.#forget(id);
          this.#log.error({ err: error, volume: id }, `volume ${id} cannot be served: ${messageOf(error)}`);
        }
      }
    });
  }

  async create(wanted: NewVolume, signal: AbortSignal): Promise<Volume> {
    checkNewVolume(wanted);
    return this.#change(signal, async () => {
      this.#mustNotBeErased(wanted.id);
      if (!(await this.#files.has(wanted.id))) {
        const sizeBytes = roundUp(wanted.sizeBytes);
        await this.#mustFit(sizeBytes);
        const label = { tags: [...wanted.tags, createdTag], readOnly: false, family: wanted.id };
        await this.#files.make(wanted.id, sizeBytes, label, signal);
      }
      return this.#mustBe(wanted.id, wanted.sizeBytes, undefined, signal);
    });
  }

  async grow(id: VolumeId, sizeBytes: bigint, signal: AbortSignal): Promise<Volume> {
    return this.#change(signal, async () => {
      const volume = this.#mustHave(id);
      if (volume.sizeBytes < sizeBytes) {
        const grownBytes = roundUp(sizeBytes);
        await this.#mustFit(grownBytes - volume.sizeBytes);
        await this.#files.grow(id, volume.sizeBytes, grownBytes, signal);
      }
      await this.#loops.updateSize(volume.devicePath, signal); // also after a crash that left only the file grown
      return this.#serve(id, await this.#files.label(id), volume.devicePath, signal);
    });
  }

  async addTags(id: VolumeId, tags: readonly string[], signal: AbortSignal): Promise<Volume> {
    checkAddedTags(tags);
    return this.#change(signal, async () => {
      const volume = this.#mustHave(id);
      const before = await this.#files.label(id);
      const label = { ...before, tags: [...new Set([...before.tags, ...tags])] };
      await this.#files.writeLabel(id, label);
      return this.#serve(id, label, volume.devicePath, signal);
    });
  }

  async snapshot(source: VolumeId, wanted: NewSnapshot, signal: AbortSignal): Promise<Volume> {
    checkVolumeId(wanted.id);
    checkNewTags(wanted.tags);
    return this.#change(signal, async () => {
      this.#mustNotBeErased(wanted.id);
      const original = this.#mustHave(source);
      const sizeBytes = roundUp(wanted.sizeBytes ?? original.sizeBytes);
      if (!(await this.#files.has(wanted.id))) {
        if (sizeBytes < original.sizeBytes) throw new errors.SnapshotTooSmall(wanted.id, original.sizeBytes, sizeBytes);
        await this.#mustFit(sizeBytes);
        await this.#copy(original, wanted, sizeBytes, signal);
      }
      return this.#mustBe(wanted.id, sizeBytes, source, signal);
    });
  }

  async remove(id: VolumeId, signal: AbortSignal): Promise<boolean> {
    checkVolumeId(id); // it becomes the name of the file that is removed
    let wasThere = this.#erasures.has(id);
    if (!wasThere) {
      await this.#change(signal, async () => {
        wasThere = await this.#files.has(id);
        if (wasThere) await this.#detach(id, signal);
        try {
          if (this.#class.erase.kind === 'none') await this.#files.remove(id);
          else if (await this.#files.has(id)) await this.#beginErasure(id);
        } catch (error) {
          if (this.#volumes.has(id)) await this.#find(id, signal); // the device that it had may go to another
          throw error;
        }
        await this.#forget(id);
        for (const { origin, ...copy } of this.#volumes.values()) if (origin === id) this.#volumes.set(copy.id, copy);
      });
    }
    await this.#erasures.join(id, signal);
    return wasThere;
  }

  async #change<T>(signal: AbortSignal, change: () => Promise<T>): Promise<T> {
    return this.#alone(signal, async () => {
      this.#isChanging = true;
      try {
        return await change();
      } finally {
        this.#isChanging = false;
      }
    });
  }

  /** One at a time; space is measured after each, as only the filesystem knows what a file takes. */
  async #alone<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    return this.#lock.run('directory', signal, async () => {
      if (this.#isStopped) throw new errors.PoolStopped(this.name);
      try {
        return await work();
      } finally {
        await this.#measure();
        this.#listeners.notify();
      }
    });
  }

  async #copy(original: FileVolume, wanted: NewSnapshot, sizeBytes: bigint, signal: AbortSignal): Promise<void> {
    const { id, devicePath, family } = original;
    const label: Label = {
      tags: [...new Set([...wanted.tags, ...contentTags(original.tags), sourceTag(id)])],
      readOnly: wanted.access === 'ro',
      origin: id,
      family,
    };
    await this.#loops.flush(devicePath);
    const copy = (draft: string) =>
      reflink(this.#run, this.#files.imagePath(id), draft, [devicePath, luksDevicePath(id)]);
    await this.#files.makeCopy(wanted.id, sizeBytes, label, copy, signal);
  }

  /** The volume by this name, which may be there from an earlier call: then it must be what is asked for now. */
  async #mustBe(id: VolumeId, wantedBytes: bigint, origin: VolumeId | undefined, signal: AbortSignal): Promise<Volume> {
    const volume = this.#volumes.get(id) ?? (await this.#find(id, signal));
    if (volume.origin !== origin) throw new errors.NameTaken(this.name, id, origin);
    if (volume.sizeBytes < wantedBytes) throw new errors.VolumeExists(this.name, id, volume.sizeBytes, wantedBytes);
    return volume;
  }

  async #find(id: VolumeId, signal: AbortSignal): Promise<Volume> {
    const label = await this.#files.label(id);
    if (erasureIn(label.tags)) throw new errors.VolumeBeingErased(id);
    const image = this.#files.imagePath(id);
    return this.#serve(id, label, (await this.#loops.find([image], signal)).get(image), signal);
  }

  async #serve(id: VolumeId, label: Label, attachedAs: string | undefined, signal: AbortSignal): Promise<Volume> {
    const { tags, readOnly, origin, family } = label;
    const image = this.#files.imagePath(id);
    const devicePath = attachedAs ?? (await this.#loops.attach(image, { readOnly }, signal));
    await this.#loops.hold(devicePath, image, signal);
    if (this.#volumes.get(id)?.devicePath !== devicePath) await this.#forget(id);
    const volume = {
      id,
      sizeBytes: (await this.#files.room(id)).sizeBytes,
      devicePath,
      tags,
      readOnly,
      ...(origin !== undefined && (await this.#files.has(origin)) && { origin }),
      attr: readOnly ? '-ri-a-----' : '-wi-a-----',
      family,
    };
    this.#volumes.set(id, volume);
    return volume;
  }

  async #forget(id: VolumeId): Promise<void> {
    const volume = this.#volumes.get(id);
    this.#volumes.delete(id);
    if (volume) await this.#loops.release(volume.devicePath);
  }

  /** From here on the volume cannot be used any more, and what becomes of it is on the disk. */
  async #beginErasure(id: VolumeId): Promise<void> {
    const { erase } = this.#class;
    const label = await this.#files.label(id);
    if (erasureIn(label.tags)) return; // by a call that came just before
    await mustBeErasable({ kind: 'file', path: this.#files.imagePath(id) }, erase);
    const kept = label.tags.filter((tag) => !isErasureTag(tag));
    const marked = { ...label, tags: [...kept, ...erasureTags(erase)] };
    await this.#files.writeLabel(id, marked);
    await this.#erase(id, marked);
  }

  async #erase(id: VolumeId, label: Label): Promise<void> {
    const record = erasureIn(label.tags);
    if (!record) return;
    await this.#forget(id);
    this.#erasures.add({
      ...record,
      id,
      target: {
        kind: 'file',
        path: this.#files.imagePath(id),
        sizeBytes: (await this.#files.room(id)).sizeBytes,
        mustBeSame: async () => void (await this.#markedLabel(id)),
      },
      record: (cleanBytes) => this.#recordProgress(id, cleanBytes),
      release: () => this.#change(neverAborted, () => this.#files.remove(id)),
    });
  }

  async #recordProgress(id: VolumeId, cleanBytes: bigint): Promise<void> {
    const label = await this.#markedLabel(id);
    const tags = [...label.tags.filter((tag) => !isProgressTag(tag)), progressTag(cleanBytes)];
    await this.#files.writeLabel(id, { ...label, tags });
  }

  /** As long as its erasure is known here, no other volume gets its name. */
  async #markedLabel(id: VolumeId): Promise<Label> {
    const label = (await this.#files.has(id)) ? await this.#files.label(id) : undefined;
    if (label && erasureIn(label.tags)) return label;
    throw new ErasureCalledOff(id);
  }

  /** Nobody may go on writing to a file that has lost its name. */
  async #detach(id: VolumeId, signal: AbortSignal): Promise<void> {
    const image = this.#files.imagePath(id);
    const device = (await this.#loops.find([image], signal)).get(image);
    if (!device) return;
    if (await this.#loops.isHeld(device)) throw new errors.VolumeInUse(id, device);
    await this.#loops.detach(device, signal);
    const kept = (await this.#loops.find([image], signal)).get(image);
    if (!kept) return;
    if (this.#volumes.has(id)) await this.#serve(id, await this.#files.label(id), kept, signal);
    throw new errors.VolumeInUse(id, kept);
  }

  /**
   * Volumes are written and trimmed meanwhile, so what is free is measured before and after what they may still take of
   * it: the lesser counts. A file that somebody took away takes nothing more; the next refresh notices that it is gone.
   */
  async #measure(): Promise<void> {
    const before = await this.#files.space();
    const rooms = await Promise.allSettled(
      [...this.#volumes.values()].map(async ({ id, family }) => ({ ...(await this.#files.room(id)), family })),
    );
    const present = rooms.flatMap((room) => (room.status === 'fulfilled' ? [room.value] : []));
    const after = await this.#files.space();
    const freeBytes = before.freeBytes < after.freeBytes ? before.freeBytes : after.freeBytes;
    this.#space = { sizeBytes: after.sizeBytes, freeBytes: freeBytes - roomToCome(present) };
  }

  async #mustFit(sizeBytes: bigint): Promise<void> {
    await this.#measure();
    const { freeBytes } = this.capacity();
    if (sizeBytes > freeBytes) throw new errors.PoolFull(this.name, sizeBytes, freeBytes);
  }

  #mustHave(id: VolumeId): FileVolume {
    const volume = this.#volumes.get(id);
    if (volume) return volume;
    this.#mustNotBeErased(id);
    throw new errors.VolumeNotFound(this.name, id);
  }

  #mustNotBeErased(id: VolumeId): void {
    if (this.#erasures.has(id)) throw new errors.VolumeBeingErased(id);
  }
}

/** For what goes on even if the caller has left. */
const neverAborted = new AbortController().signal;

function roundUp(sizeBytes: bigint): bigint {
  return ((sizeBytes + granuleBytes - 1n) / granuleBytes) * granuleBytes;
}
