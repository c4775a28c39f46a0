import { messageOf } from '../../base/errors.ts';
import type { Run } from '../../base/exec.ts';
import { KeyedLock } from '../../base/keyed-lock.ts';
import type { Log } from '../../base/log.ts';
import { ChangeListeners } from '../change-listeners.ts';
import type { FileClass } from '../device-classes.ts';
import { PoolFull, PoolMissing, SnapshotUnsupported, VolumeExists, VolumeInUse, VolumeNotFound } from '../errors.ts';
import type { Capacity, Erasure, NewVolume, Pool, Volume, VolumeId } from '../pool.ts';
import { createdTag } from '../tags.ts';
import { checkNewVolume, checkTags, checkVolumeId } from '../volume-id.ts';
import { LoopDevices } from './loop-devices.ts';
import { VolumeFiles } from './volume-files.ts';

export interface FilePoolOptions {
  readonly deviceClass: FileClass;
  readonly run: Run;
  readonly log: Log;
}

/** What every filesystem and every disk can cut. */
const granuleBytes = 4096n;

/**
 * Volumes as preallocated files in one directory, each on a loop device. It needs neither a spare disk nor device mapper.
 * The directory is the truth; memory follows it. Another process must not change the directory meanwhile.
 */
export class FilePool implements Pool {
  readonly name: string;
  readonly #class: FileClass;
  readonly #files: VolumeFiles;
  readonly #loops: LoopDevices;
  readonly #log: Log;
  readonly #lock = new KeyedLock();
  readonly #listeners = new ChangeListeners();
  readonly #volumes = new Map<VolumeId, Volume>();
  #space: Capacity = { sizeBytes: 0n, freeBytes: 0n };

  private constructor({ deviceClass, run, log }: FilePoolOptions) {
    this.name = deviceClass.name;
    this.#class = deviceClass;
    this.#files = new VolumeFiles(deviceClass.path, run);
    this.#loops = new LoopDevices(run);
    this.#log = log.child({ deviceClass: deviceClass.name, path: deviceClass.path });
  }

  /** Reads the directory, clears away what a crash left half-made, and attaches what a reboot detached. */
  static async open(options: FilePoolOptions, signal: AbortSignal): Promise<FilePool> {
    const pool = new FilePool(options);
    try {
      await pool.#files.removeUnfinished();
    } catch (cause) {
      const { path, name } = options.deviceClass;
      throw new PoolMissing(
        `directory ${path} of device class ${name} cannot be read (${messageOf(cause)}); create it, or correct path`,
        { cause },
      );
    }
    await pool.refresh(signal);
    return pool;
  }

  capacity(): Capacity {
    const unspared = this.#space.freeBytes - this.#class.spareBytes;
    return { sizeBytes: this.#space.sizeBytes, freeBytes: unspared > 0n ? unspared : 0n };
  }

  list(): readonly Volume[] {
    return [...this.#volumes.values()];
  }

  get(id: VolumeId): Volume | undefined {
    return this.#volumes.get(id);
  }

  erasures(): readonly Erasure[] {
    return [];
  }

  onChange(listener: () => void): () => void {
    return this.#listeners.add(listener);
  }

  /** Reads the directory anew. A volume that cannot be attached is left out, and the others are served. */
  async refresh(signal: AbortSignal): Promise<void> {
    await this.#change(signal, async () => {
      const ids = await this.#files.list();
      const attached = await this.#loops.find(
        ids.map((id) => this.#files.imagePath(id)),
        signal,
      );
      for (const id of this.#volumes.keys()) if (!ids.includes(id)) this.#volumes.delete(id);
      for (const id of ids) {
        try {
          await this.#load(id, attached.get(this.#files.imagePath(id)), signal);
        } catch (error) {
          signal.throwIfAborted();
          this.#volumes.delete(id);
          this.#log.error({ err: error, volume: id }, `volume ${id} cannot be served: ${messageOf(error)}`);
        }
      }
    });
  }

  async create(wanted: NewVolume, signal: AbortSignal): Promise<Volume> {
    checkNewVolume(wanted);
    return this.#change(signal, async () => {
      if (!(await this.#files.has(wanted.id))) {
        const sizeBytes = roundUp(wanted.sizeBytes);
        await this.#mustFit(sizeBytes);
        await this.#files.make(wanted.id, sizeBytes, [...wanted.tags, createdTag], signal);
      }
      const volume = await this.#find(wanted.id, signal);
      if (volume.sizeBytes >= wanted.sizeBytes) return volume;
      throw new VolumeExists(this.name, wanted.id, volume.sizeBytes, wanted.sizeBytes);
    });
  }

  async grow(id: VolumeId, sizeBytes: bigint, signal: AbortSignal): Promise<Volume> {
    return this.#change(signal, async () => {
      const volume = this.#mustHave(id);
      if (volume.sizeBytes < sizeBytes) {
        const grownBytes = roundUp(sizeBytes);
        await this.#mustFit(grownBytes - volume.sizeBytes);
        await this.#files.grow(id, grownBytes, signal);
      }
      await this.#loops.updateSize(volume.devicePath, signal); // also after a crash that left only the file grown
      return this.#load(id, volume.devicePath, signal);
    });
  }

  async addTags(id: VolumeId, tags: readonly string[], signal: AbortSignal): Promise<Volume> {
    checkTags(tags);
    return this.#change(signal, async () => {
      const volume = this.#mustHave(id);
      await this.#files.writeTags(id, [...new Set([...volume.tags, ...tags])]);
      return this.#load(id, volume.devicePath, signal);
    });
  }

  async snapshot(source: VolumeId): Promise<Volume> {
    throw new SnapshotUnsupported(
      `device class ${this.name} keeps volumes as files and cannot copy ${source}; use a thin device class for snapshots`,
    );
  }

  async remove(id: VolumeId, signal: AbortSignal): Promise<void> {
    checkVolumeId(id); // it becomes the name of the file that is removed
    await this.#change(signal, async () => {
      if (await this.#files.has(id)) await this.#detach(id, signal);
      await this.#files.remove(id);
      this.#volumes.delete(id);
    });
  }

  /** One change at a time; space is measured after each, as only the filesystem knows what a file takes. */
  async #change<T>(signal: AbortSignal, change: () => Promise<T>): Promise<T> {
    return this.#lock.run('directory', signal, async () => {
      try {
        return await change();
      } finally {
        this.#space = await this.#files.space();
        this.#listeners.notify();
      }
    });
  }

  async #find(id: VolumeId, signal: AbortSignal): Promise<Volume> {
    const known = this.#volumes.get(id);
    if (known) return known;
    const image = this.#files.imagePath(id);
    return this.#load(id, (await this.#loops.find([image], signal)).get(image), signal);
  }

  async #load(id: VolumeId, attachedAs: string | undefined, signal: AbortSignal): Promise<Volume> {
    const volume: Volume = {
      id,
      readOnly: false,
      attr: '-wi-a-----',
      sizeBytes: await this.#files.sizeBytes(id),
      tags: await this.#files.tags(id),
      devicePath: attachedAs ?? (await this.#loops.attach(this.#files.imagePath(id), signal)),
    };
    this.#volumes.set(id, volume);
    return volume;
  }

  /** Nobody may go on writing to a file that has lost its name. */
  async #detach(id: VolumeId, signal: AbortSignal): Promise<void> {
    const image = this.#files.imagePath(id);
    const device = (await this.#loops.find([image], signal)).get(image);
    if (!device) return;
    if (await this.#loops.isHeld(device)) throw new VolumeInUse(id, device);
    await this.#loops.detach(device, signal);
    if ((await this.#loops.find([image], signal)).has(image)) throw new VolumeInUse(id, device);
  }

  async #mustFit(sizeBytes: bigint): Promise<void> {
    this.#space = await this.#files.space();
    const { freeBytes } = this.capacity();
    if (sizeBytes > freeBytes) throw new PoolFull(this.name, sizeBytes, freeBytes);
  }

  #mustHave(id: VolumeId): Volume {
    const volume = this.#volumes.get(id);
    if (!volume) throw new VolumeNotFound(this.name, id);
    return volume;
  }
}

function roundUp(sizeBytes: bigint): bigint {
  return ((sizeBytes + granuleBytes - 1n) / granuleBytes) * granuleBytes;
}
