import { mustNotBeBound } from '../bound-device.ts';
import { erasureIn } from '../erase/erasure.ts';
import * as errors from '../errors.ts';
import type { Volume, VolumeId } from '../pool.ts';
import type { LoopDevices } from './loop-devices.ts';
import type { Label, VolumeFiles } from './volume-files.ts';

/** Each takes some milliseconds, as it runs a command. */
const looksAfterDetach = 30;

/** A volume, and the family of copies that it may share blocks with. */
export interface FileVolume extends Volume {
  readonly family: VolumeId;
}

/** The volumes that can be used: those whose files are on loop devices, which are held as long as they are known here. */
export class AttachedVolumes {
  readonly #files: VolumeFiles;
  readonly #loops: LoopDevices;
  readonly #volumes = new Map<VolumeId, FileVolume>();

  constructor(files: VolumeFiles, loops: LoopDevices) {
    this.#files = files;
    this.#loops = loops;
  }

  list(): readonly FileVolume[] {
    return [...this.#volumes.values()];
  }

  get(id: VolumeId): FileVolume | undefined {
    return this.#volumes.get(id);
  }

  /** The volume of the file by this name, which is attached if it is not yet. */
  async find(id: VolumeId, signal: AbortSignal): Promise<FileVolume> {
    const label = await this.#files.label(id);
    if (erasureIn(label.tags)) throw new errors.VolumeBeingErased(id);
    return this.add(id, label, await this.#deviceOf(id, signal), signal);
  }

  /** `attachedAs` is the device that its file is on already, if it is. */
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

  /** Nobody may go on writing to a file that has lost its name. */
  async detach(id: VolumeId, signal: AbortSignal): Promise<void> {
    const device = await this.#deviceOf(id, signal);
    if (!device) return;
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

  /** Copies of a volume that is gone are copies of nothing. */
  forgetOrigin(id: VolumeId): void {
    for (const { origin, ...copy } of this.list()) if (origin === id) this.#volumes.set(copy.id, copy);
  }

  /**
   * The device that the file is still on after it was detached. Whoever only looks at all devices, as losetup and udev do,
   * has it open for a moment, and the kernel waits for that; whoever really uses it stays longer.
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
