import type { Run } from '../../base/exec.ts';
import { mustNotBeBound } from '../device-use.ts';
import { erasureIn } from '../erase/erasure-tags.ts';
import * as errors from '../errors.ts';
import { closeLeftover } from '../luks-device.ts';
import type { Volume, VolumeId } from '../pool.ts';
import type { LoopDevices } from './loop-devices.ts';
import type { Label, VolumeFiles } from './volume-files.ts';

/** Each runs a command and takes some milliseconds. */
const looksAfterDetach = 30;

/** A volume, and the family of copies that it may share blocks with. */
export interface FileVolume extends Volume {
  readonly family: VolumeId;
}

/** The usable volumes: those whose files are on loop devices, which are held open as long as they are listed here. */
export class AttachedVolumes {
  readonly #files: VolumeFiles;
  readonly #loops: LoopDevices;
  readonly #run: Run;
  readonly #volumes = new Map<VolumeId, FileVolume>();

  constructor(files: VolumeFiles, loops: LoopDevices, run: Run) {
    this.#files = files;
    this.#loops = loops;
    this.#run = run;
  }

  list(): readonly FileVolume[] {
    return [...this.#volumes.values()];
  }

  get(id: VolumeId): FileVolume | undefined {
    return this.#volumes.get(id);
  }

  /** The volume with this name; attaches its file if necessary. */
  async find(id: VolumeId, signal: AbortSignal): Promise<FileVolume> {
    const label = await this.#files.label(id);
    if (erasureIn(label.tags)) throw new errors.VolumeBeingErased(id);
    return this.add(id, label, await this.#deviceOf(id, signal), signal);
  }

  /** `attachedAs` is the device that its file is already attached to, if any. */
  async add(id: VolumeId, label: Label, attachedAs: string | undefined, signal: AbortSignal): Promise<FileVolume> {
    const { tags, readOnly, origin, family } = label;
    const image = this.#files.imagePath(id);
    const devicePath = attachedAs ?? (await this.#loops.attach(image, { readOnly }, signal));
    await this.#loops.hold(devicePath, image, signal);
    if (this.#volumes.get(id)?.devicePath !== devicePath) await this.forget(id);
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

  /** Within a change: makes a volume read-only or writable. Nobody may have its device open. */
  async reattach(
    { id, devicePath }: FileVolume,
    { readOnly }: { readonly readOnly: boolean },
    signal: AbortSignal,
  ): Promise<FileVolume> {
    try {
      await this.detach(id, signal);
      await this.#files.writeLabel(id, { ...(await this.#files.label(id)), readOnly });
    } catch (error) {
      if (this.#volumes.has(id)) await this.find(id, signal); // with the device that it has now
      throw error instanceof errors.VolumeInUse ? new errors.VolumeOpen(id, devicePath, { cause: error }) : error;
    }
    return this.find(id, signal);
  }

  /** Before the file is renamed, so that nobody goes on writing to it. */
  async detach(id: VolumeId, signal: AbortSignal): Promise<void> {
    const device = await this.#deviceOf(id, signal);
    if (!device) return;
    await closeLeftover(this.#run, { id, devicePath: device });
    if (await this.#loops.isHeld(device)) throw new errors.VolumeInUse(id, device);
    await mustNotBeBound(id, device);
    await this.#loops.detach(device, signal);
    const kept = await this.#keptOn(id, signal);
    if (!kept) return;
    if (this.#volumes.has(id)) await this.add(id, await this.#files.label(id), kept, signal);
    throw new errors.VolumeInUse(id, kept);
  }

  async forget(id: VolumeId): Promise<void> {
    const volume = this.#volumes.get(id);
    this.#volumes.delete(id);
    if (volume) await this.#loops.release(volume.devicePath);
  }

  /** Copies of a removed volume have no origin. */
  forgetOrigin(id: VolumeId): void {
    for (const { origin, ...copy } of this.list()) if (origin === id) this.#volumes.set(copy.id, copy);
  }

  /**
   * The device that the file is still attached to after a detach. losetup and udev open every device for a moment, which
   * delays the detach; a real user keeps it open longer.
   */
  async #keptOn(id: VolumeId, signal: AbortSignal): Promise<string | undefined> {
    let device = await this.#deviceOf(id, signal);
    for (let looks = 1; device && looks < looksAfterDetach; looks++) device = await this.#deviceOf(id, signal);
    return device;
  }

  async #deviceOf(id: VolumeId, signal: AbortSignal): Promise<string | undefined> {
    const image = this.#files.imagePath(id);
    return (await this.#loops.find([image], signal)).get(image);
  }
}
