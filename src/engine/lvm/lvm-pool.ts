import type { Clock } from '../../base/clock.ts';
import type { deviceSizeBytes } from '../../base/device-number.ts';
import type { Run } from '../../base/exec.ts';
import type { Log } from '../../base/log.ts';
import type { ChangeTracking } from '../changes/change-tracking.ts';
import { CheckpointTracking } from '../changes/checkpoint-tracking.ts';
import type { ErasePolicy, LvmClass, OptionClass } from '../config/device-classes.ts';
import { mustDestroyData } from '../erase/erase-policy.ts';
import { erasureIn, policyOnRemoval } from '../erase/erasure-tags.ts';
import type { Erasures } from '../erase/erasures.ts';
import { OptionClassNotFound, VolumeBeingErased, VolumeExists } from '../errors.ts';
import { closeLeftover, flushMapping } from '../luks-device.ts';
import {
  checkAddedTags,
  checkNewTags,
  checkNewVolume,
  checkVolumeId,
  emptyingTag,
  isEncrypted,
  newVolumeTags,
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
import type { CopyDevice } from '../volume-copies.ts';
import { ClassVolumes } from './class-volumes.ts';
import type { Layout } from './layout.ts';
import { setAccess } from './lvm-access.ts';
import { markForErasure, resumeErasures } from './lvm-erasure.ts';
import { isReadOnly, type LogicalVolume } from './report.ts';
import { ThickLayout } from './thick-layout.ts';
import { ThinLayout } from './thin-layout.ts';
import type { VolumeGroup } from './volume-group.ts';

export interface LvmPoolOptions {
  readonly deviceClass: LvmClass;
  readonly optionClasses: readonly OptionClass[];
  readonly group: VolumeGroup;
  readonly erasures: Erasures;
  /** Runs commands other than LVM's. */
  readonly run: Run;
  readonly clock: Clock;
  readonly log: Log;
  /** Copies the data of a thick volume. */
  readonly copyDevice?: CopyDevice;
  /** Reads the size of a thin device from the kernel. */
  readonly deviceSize?: typeof deviceSizeBytes;
}

interface Parts {
  readonly settings: Pick<LvmPoolOptions, 'deviceClass' | 'optionClasses'>;
  readonly layout: Layout;
  readonly volumes: ClassVolumes;
  readonly group: VolumeGroup;
  readonly erasures: Erasures;
  readonly run: Run;
  readonly log: Log;
}

/** Volumes of one device class in a volume group: listed from memory, and changed under the lock of the group. */
export class LvmPool implements ServedPool {
  readonly name: string;
  readonly #layout: Layout;
  readonly #volumes: ClassVolumes;
  readonly #group: VolumeGroup;
  readonly #erasures: Erasures;
  readonly #run: Run;
  readonly #log: Log;
  #erase: ErasePolicy;
  #optionClasses: readonly OptionClass[];

  private constructor({ settings, layout, volumes, group, erasures, run, log }: Parts) {
    this.name = settings.deviceClass.name;
    this.#erase = settings.deviceClass.erase;
    this.#optionClasses = settings.optionClasses;
    this.#layout = layout;
    this.#volumes = volumes;
    this.#group = group;
    this.#erasures = erasures;
    this.#run = run;
    this.#log = log;
  }

  /** Activates what a reboot left inactive, and resumes erasures that a crash interrupted. */
  static async open(options: LvmPoolOptions, signal: AbortSignal): Promise<LvmPool> {
    const { deviceClass, group, erasures, run, clock, copyDevice, deviceSize } = options;
    const log = options.log.child({ deviceClass: deviceClass.name });
    const place = deviceClass.type === 'thin' ? deviceClass.thinPool.name : undefined;
    const volumes = new ClassVolumes({ deviceClass: deviceClass.name, group, place, erasures, log });
    const layout =
      deviceClass.type === 'thin'
        ? new ThinLayout({ deviceClass, volumes, group, clock, log, ...(deviceSize && { deviceSize }) })
        : new ThickLayout({ deviceClass, volumes, group, log, ...(copyDevice && { copyDevice }) });
    const pool = new LvmPool({ settings: options, layout, volumes, group, erasures, run, log });
    await group.change(signal, () => volumes.resume(signal));
    pool.#resumeErasures();
    await layout.start(signal);
    return pool;
  }

  capacity(): Capacity {
    return this.#layout.capacity();
  }

  list(): readonly Volume[] {
    return this.#volumes
      .all()
      .filter((volume) => this.#volumes.canBeUsed(volume))
      .map(toVolume);
  }

  get(id: VolumeId): Volume | undefined {
    const volume = this.#volumes.find(id);
    return volume && this.#volumes.canBeUsed(volume) ? toVolume(volume) : undefined;
  }

  erasures(): readonly Erasure[] {
    return this.#erasures.list();
  }

  details(): PoolDetails {
    const { memory, problem } = this.#group;
    return { ...this.#layout.details(), volumeGroupUuid: memory.uuid, ...(problem !== undefined && { problem }) };
  }

  isChanging(): boolean {
    return this.#group.isChanging;
  }

  onChange(listener: () => void): () => void {
    return this.#group.onChange(listener);
  }

  async refresh(signal: AbortSignal): Promise<void> {
    await this.#group.refresh(signal);
    this.#resumeErasures();
  }

  reconfigure({ deviceClass, optionClasses }: PoolSettings): void {
    this.#erase = deviceClass.erase;
    this.#optionClasses = optionClasses;
    this.#layout.reconfigure(deviceClass);
  }

  async stop(graceMs: number): Promise<void> {
    await this.#layout.stop();
    await this.#erasures.stop(graceMs);
  }

  async create(wanted: NewVolume, signal: AbortSignal): Promise<Volume> {
    checkNewVolume(wanted);
    return this.#group.change(signal, async () => {
      if (!(await this.#volumes.createdEarlier(wanted, undefined))) {
        await this.#layout
          .create(wanted, newVolumeTags(wanted), this.#optionsFor(wanted))
          .catch((error) => this.#volumes.mustBeThere(wanted, error));
      }
      this.#volumes.rememberWiped(wanted.id);
      const volume = this.#volumes.mustHave(wanted.id);
      if (volume.sizeBytes >= wanted.sizeBytes) return toVolume(volume);
      throw new VolumeExists(this.name, wanted.id, volume.sizeBytes, wanted.sizeBytes);
    });
  }

  async grow(id: VolumeId, sizeBytes: bigint, signal: AbortSignal): Promise<Volume> {
    return this.#group.change(signal, async () => {
      await this.#layout.grow(this.#volumes.mustHave(id), sizeBytes);
      return toVolume(this.#volumes.mustHave(id));
    });
  }

  async snapshot(source: VolumeId, wanted: NewSnapshot, signal: AbortSignal): Promise<Volume> {
    checkVolumeId(wanted.id);
    checkNewTags(wanted.tags);
    const encrypted = this.#encrypted(source);
    if (encrypted) await flushMapping(this.#run, encrypted);
    return toVolume(await this.#layout.snapshot(source, wanted, signal));
  }

  async addTags(id: VolumeId, tags: readonly string[], signal: AbortSignal): Promise<Volume> {
    checkAddedTags(tags);
    return this.#group.changeSurely(signal, async () => {
      const volume = this.#volumes.mustHave(id);
      await this.#group.setTags(volume, withAddedTags(volume.tags, tags));
      return toVolume(this.#volumes.mustHave(id));
    });
  }

  async removeTags(id: VolumeId, keys: readonly string[], signal: AbortSignal): Promise<Volume> {
    return this.#group.changeSurely(signal, async () => {
      const volume = this.#volumes.mustHave(id);
      await this.#group.setTags(volume, withoutMoveTags(volume.tags, keys));
      return toVolume(this.#volumes.mustHave(id));
    });
  }

  async setAccess(id: VolumeId, access: Access, signal: AbortSignal): Promise<Volume> {
    return this.#group.changeSurely(signal, async () => {
      await setAccess(this.#group, this.#volumes.mustHave(id), access);
      return toVolume(this.#volumes.mustHave(id));
    });
  }

  trackChanges(id: VolumeId): ChangeTracking {
    const checkpoints = this.#layout.checkpoints(id, (name, signal) => this.remove(name, signal));
    const volume = () => toVolume(this.#volumes.mustHaveWhole(id));
    return new CheckpointTracking({ checkpoints, volume, log: this.#log });
  }

  async remove(id: VolumeId, signal: AbortSignal): Promise<Removal> {
    checkVolumeId(id); // the ID becomes part of the removed path
    this.#layout.mustNotBeBeingCopied(id);
    if (this.#erasures.isEmptying(id)) await this.#erasures.join(id, signal);
    this.#volumes.forgetWiped(id);
    const encrypted = this.#encrypted(id);
    if (encrypted) await closeLeftover(this.#run, encrypted);
    let unpromised: ErasePolicy = { kind: 'none' };
    if (!this.#isToBeErased(id)) {
      const { place } = this.#volumes;
      const outcome = await this.#group.remove({ name: id, place, classPolicy: this.#erase }, signal);
      if (outcome === 'removed' || outcome === 'absent') return outcome;
      if (outcome === 'to be discarded') unpromised = { kind: 'discard' }; // by LVM's own configuration
    }
    const removal = await this.#group.change(signal, async (): Promise<Removal> => {
      await this.#group.ask(); // memory does not know whether the volume is open, and may lack its UUID
      const volume = this.#volumes.find(id);
      const present = volume && (await this.#volumes.activate(volume));
      if (!present) return this.#erasures.has(id) ? 'erased' : volume ? 'removed' : 'absent';
      if (erasureIn(present.tags)?.isKept) throw new VolumeBeingErased(id); // it may have started in the meantime
      const promised = erasureIn(present.tags)?.policy ?? policyOnRemoval(present.tags, this.#erase);
      await markForErasure(this.#group, present, promised.kind === 'none' ? unpromised : promised);
      // LVM's own discards promise nothing, and without its key, data may still be read with that of a copy.
      return promised.kind === 'none' ? 'removed' : 'erased';
    });
    this.#resumeErasures();
    await this.#erasures.join(id, signal);
    return removal;
  }

  async empty(id: VolumeId, policy: ErasePolicy, signal: AbortSignal): Promise<Volume> {
    mustDestroyData(policy);
    this.#layout.mustNotBeBeingCopied(id);
    const encrypted = this.#encrypted(id);
    if (encrypted) await closeLeftover(this.#run, encrypted);
    await this.#group.change(signal, async () => {
      await this.#group.ask(); // as for a removal
      await markForErasure(this.#group, await this.#volumes.mustBeEmptiable(id), policy, emptyingTag);
    });
    this.#resumeErasures();
    await this.#erasures.join(id, signal);
    return toVolume(this.#volumes.mustHave(id));
  }

  #encrypted(id: VolumeId): Volume | undefined {
    const volume = this.get(id);
    return volume && isEncrypted(volume) ? volume : undefined;
  }

  /** An erasure that has begun is completed, even if the class no longer erases. */
  #isToBeErased(id: VolumeId): boolean {
    const tags = this.#volumes.find(id)?.tags ?? [];
    return erasureIn(tags) !== undefined || policyOnRemoval(tags, this.#erase).kind !== 'none';
  }

  #resumeErasures(): void {
    resumeErasures(this.#group, this.#volumes, this.#erasures);
  }

  /** The lvcreate options of the option class that the volume requests; undefined for those of the device class. */
  #optionsFor({ optionClass }: NewVolume): readonly string[] | undefined {
    if (!optionClass) return undefined;
    const found = this.#optionClasses.find(({ name }) => name === optionClass);
    if (found) return found.options;
    throw new OptionClassNotFound(
      optionClass,
      this.#optionClasses.map(({ name }) => name),
    );
  }
}

/** An unchanged volume is the same object in every list, so that others can cache by it. */
const asVolumes = new WeakMap<LogicalVolume, Volume>();

function toVolume(volume: LogicalVolume): Volume {
  const known = asVolumes.get(volume);
  if (known) return known;
  const { name, sizeBytes, path, tags, attr, origin } = volume;
  const readOnly = isReadOnly(volume);
  const created = {
    id: name,
    sizeBytes,
    devicePath: path,
    tags,
    readOnly,
    attr,
    ...(origin !== undefined && { origin }),
  };
  asVolumes.set(volume, created);
  return created;
}
