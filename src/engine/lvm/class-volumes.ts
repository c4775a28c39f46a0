import { messageOf } from '../../base/errors.ts';
import { CommandFailed } from '../../base/exec.ts';
import type { Log } from '../../base/log.ts';
import { isHeld } from '../device-use.ts';
import { mustStandAlone } from '../erase/erasable.ts';
import { erasureIn } from '../erase/erasure-tags.ts';
import type { Erasures } from '../erase/erasures.ts';
import {
  NameTaken,
  NameTakenByOther,
  NotCreatedHere,
  VolumeBeingErased,
  VolumeInactive,
  VolumeInUse,
  VolumeNotFound,
} from '../errors.ts';
import {
  checkpointedIn,
  copiedTag,
  createdTag,
  isCreatedHere,
  showsUse,
  sourceIn,
  unfinishedTag,
  unusedTag,
} from '../names-and-tags.ts';
import type { NewSnapshot, NewVolume, VolumeId } from '../pool.ts';
import { askLvm, type Place } from './group-memory.ts';
import { isReadOnly, type LogicalVolume } from './report.ts';
import type { VolumeGroup } from './volume-group.ts';

export interface ClassVolumesOptions {
  readonly deviceClass: string;
  readonly group: VolumeGroup;
  readonly place: Place;
  readonly erasures: Erasures;
  readonly log: Log;
}

/** The volumes of one device class in its group: which exist, which can be used, and what interrupted calls left. */
export class ClassVolumes {
  readonly place: Place;
  readonly #deviceClass: string;
  readonly #group: VolumeGroup;
  readonly #erasures: Erasures;
  readonly #log: Log;
  readonly #activation: Activation;
  /** Volumes that this process created, so LVM has wiped them. */
  readonly #wiped = new Set<VolumeId>();

  constructor({ deviceClass, group, place, erasures, log }: ClassVolumesOptions) {
    this.place = place;
    this.#deviceClass = deviceClass;
    this.#group = group;
    this.#erasures = erasures;
    this.#log = log;
    this.#activation = new Activation(group, place, log);
  }

  /** Includes volumes that cannot be used. */
  all(): LogicalVolume[] {
    return this.#group.memory.volumesIn(this.place);
  }

  find(id: VolumeId): LogicalVolume | undefined {
    return this.#group.memory.getIn(this.place, id);
  }

  canBeUsed(volume: LogicalVolume): boolean {
    const { tags } = volume;
    return isWhole(volume) && !this.#activation.isGhost(volume) && !erasureIn(tags) && !checkpointedIn(tags);
  }

  /** Within `change`: fails for a volume that is being erased. */
  mustHave(id: VolumeId): LogicalVolume {
    const volume = this.find(id);
    if (!volume) throw new VolumeNotFound(this.#deviceClass, id);
    if (erasureIn(volume.tags)) throw new VolumeBeingErased(id);
    return volume;
  }

  /** Within `change`: a volume that can be copied. A volume whose creation was interrupted counts as not found. */
  mustHaveWhole(id: VolumeId): LogicalVolume {
    const volume = this.mustHave(id);
    if (isWhole(volume)) return volume;
    throw new VolumeNotFound(this.#deviceClass, id);
  }

  /** Within `change`: a volume with a device that can be emptied, or is being emptied. */
  async mustBeEmptiable(id: VolumeId): Promise<LogicalVolume> {
    const found = this.find(id);
    const volume = found && erasureIn(found.tags)?.isKept ? found : this.mustHaveWhole(id);
    mustStandAlone(id, { source: sourceOf(volume), readOnly: isReadOnly(volume) });
    const isThere = volume.active || (await this.#activation.activate(volume)) === 'active';
    const active = isThere && this.find(id);
    if (!active) throw new VolumeNotFound(this.#deviceClass, id);
    return active;
  }

  /** Within `change`: activates what a reboot left inactive. */
  async resume(signal: AbortSignal): Promise<void> {
    await this.#activation.activateAll(signal);
    for (const { name } of this.all().filter((volume) => !isWhole(volume))) {
      this.#log.error(
        { volume: name },
        `creation of volume ${name} was interrupted; the next attempt to create it completes it`,
      );
    }
    for (const { name, tags } of this.all()) {
      const volume = checkpointedIn(tags);
      if (volume === undefined || this.find(volume)) continue;
      this.#log.warn(
        { volume: name },
        `${name} is left from a move of volume ${volume}, which is gone; look at it with lvs --options +lv_tags`,
      );
    }
  }

  /** Within `change`: the volume with a device; undefined for a ghost, which has no data and is removed. */
  async activate(volume: LogicalVolume): Promise<LogicalVolume | undefined> {
    const { name, active } = volume;
    if (active || (await this.#activation.activate(volume)) === 'active') return this.find(name);
    await this.#group.execute(['lvremove', '--yes', this.#group.fullName(name)], askLvm);
    return this.#activation.forget(name);
  }

  rememberWiped(id: VolumeId): void {
    this.#wiped.add(id);
  }

  forgetWiped(id: VolumeId): void {
    this.#wiped.delete(id);
  }

  /** Within `change`: if somebody else created the volume just before us, treat it as if it had existed all along. */
  mustBeThere(wanted: NewVolume, error: unknown): void {
    const wasFaster = error instanceof CommandFailed && /already exists/.test(error.stderr);
    const volume = this.find(wanted.id);
    if (!wasFaster || !volume) throw error;
    this.#mustBeOurs(volume, wanted.tags);
  }

  /**
   * Within `change`: what an earlier call for the same volume, or the same copy of `source`, created. What an interrupted
   * one left behind is removed; what may hold data is not.
   */
  async createdEarlier(
    { id, tags }: NewVolume | NewSnapshot,
    source: VolumeId | undefined,
  ): Promise<LogicalVolume | undefined> {
    if (this.#erasures.has(id)) throw new VolumeBeingErased(id); // even if somebody removed the volume in the meantime
    if (!this.#group.memory.get(id)) return this.#activation.forget(id);
    const volume = this.find(id);
    if (!volume) throw new NameTakenByOther(id, this.#group.name);
    if (erasureIn(volume.tags)) throw new VolumeBeingErased(id);
    if (sourceOf(volume) !== source) throw new NameTaken(this.#deviceClass, id, source);
    this.#mustBeOurs(volume, tags);
    const isThere = volume.active || (await this.#activation.activate(volume)) === 'active';
    if (isWhole(volume) && isThere) {
      if (!(await this.#mayBeUnwiped(volume))) return this.mustHave(id);
      await this.#group.ask(); // somebody may have started to use it
      if (!(await this.#mayBeUnwiped(this.mustHave(id)))) return this.mustHave(id);
    } else {
      await this.#mustBeUnused(volume, source);
    }
    this.#log.warn({ volume: id }, `creation of volume ${id} was interrupted; re-creating it`);
    await this.#group.execute(['lvremove', '--yes', '--force', this.#group.fullName(id)], askLvm);
    return this.#activation.forget(id);
  }

  /** Never hands out a volume that merely has the same name, such as an administrator's. */
  #mustBeOurs({ name, tags }: LogicalVolume, wantedTags: readonly string[]): void {
    if (!isCreatedHere(tags, wantedTags)) throw new NotCreatedHere(this.#deviceClass, name);
  }

  /**
   * LVM commits a new volume before it wipes it. A volume that an earlier process created may therefore show old data
   * from the disk. It is re-created only if nobody can have used it.
   */
  async #mayBeUnwiped({ name, path, pool, tags }: LogicalVolume): Promise<boolean> {
    if (pool !== undefined || sourceIn(tags) !== undefined || this.#wiped.has(name) || !tags.includes(unusedTag)) {
      return false;
    }
    return !this.#group.memory.hasSnapshots(name) && !(await isHeld(path));
  }

  /** A copy inherits the usage tags of its source; they do not mean that the copy was used. */
  async #mustBeUnused({ name, path, tags }: LogicalVolume, source: VolumeId | undefined): Promise<void> {
    const inherited = source === undefined ? [] : (this.#group.memory.get(source)?.tags ?? []);
    if (tags.some((tag) => showsUse(tag) && !inherited.includes(tag))) {
      throw new NameTaken(this.#deviceClass, name, source);
    }
    this.#group.memory.mustHaveNoSnapshots(name);
    if (await isHeld(path)) throw new VolumeInUse(name, path);
  }
}

/**
 * Whether the creation of a volume was completed: a crash can interrupt it.
 *
 * LVM first creates the store of a copy-on-write snapshot as a plain volume under the final name, then turns it into the
 * snapshot. A crash in between leaves a plain volume with none of the data. A full copy is complete once it has its tag.
 *
 * A thin pool creates a volume completely or not at all. A volume without a device is a ghost, detected at activation.
 */
function isWhole({ pool, origin, tags }: LogicalVolume): boolean {
  if (pool !== undefined) return !tags.includes(unfinishedTag);
  return sourceIn(tags) === undefined || origin !== undefined || tags.includes(copiedTag);
}

/** The source of a snapshot, whoever created it; the source may no longer exist. */
function sourceOf({ origin, tags }: LogicalVolume): VolumeId | undefined {
  return origin ?? sourceIn(tags);
}

/**
 * Activates volumes after a reboot.
 *
 * A thin volume that the group knows and its pool does not is a ghost: power was lost during its creation, so it was
 * never handed out and holds no data. A volume is a ghost only if the kernel reports this, and no tag shows that the
 * volume was used: a used volume that its pool does not know is lost data, which may still be recoverable.
 */
class Activation {
  readonly #group: VolumeGroup;
  readonly #place: Place;
  readonly #log: Log;
  readonly #ghosts = new Set<string>();

  constructor(group: VolumeGroup, place: Place, log: Log) {
    this.#group = group;
    this.#place = place;
    this.#log = log;
  }

  isGhost({ name, active }: LogicalVolume): boolean {
    return !active && this.#ghosts.has(name);
  }

  /**
   * Within `change`: activates volumes by the node's own rules, and those of Moorage in any case. It takes long if LVM
   * checks a thin pool first.
   */
  async activateAll(signal: AbortSignal): Promise<void> {
    const count = this.#inactive().length;
    if (count === 0) return;
    this.#log.info(`activating volume group ${this.#group.name}: ${count} volumes are inactive`);
    try {
      await this.#group.activate(['vgchange', '--yes', '--activate', 'ay', this.#group.name], signal);
    } catch (error) {
      if (!(error instanceof CommandFailed)) throw error;
      this.#log.warn({ err: error }, `cannot activate every volume: ${messageOf(error)}`);
    }
    const isOurs = ({ tags }: LogicalVolume) => tags.includes(createdTag) || erasureIn(tags) !== undefined;
    for (const volume of this.#inactive().filter(isOurs)) {
      try {
        await this.#activate(volume, (words) => this.#group.activate(words, signal));
      } catch (error) {
        signal.throwIfAborted();
        // A volume that cannot be activated, for example after a disk loss, must not block the others.
        this.#log.error({ err: error, volume: volume.name }, `cannot use volume ${volume.name}: ${messageOf(error)}`);
      }
    }
  }

  /** Within `change`, while a caller waits: with the usual timeout. */
  async activate(volume: LogicalVolume): Promise<'active' | 'ghost'> {
    return this.#activate(volume, (words) => this.#group.execute(words, askLvm));
  }

  #inactive(): LogicalVolume[] {
    const volumes = this.#group.memory.volumesIn(this.#place);
    return volumes.filter(({ active, attr }) => !active && attr.charAt(9) !== 'k'); // k: skip activation
  }

  async #activate(
    { name, pool, tags }: LogicalVolume,
    execute: (words: readonly string[]) => Promise<void>,
  ): Promise<'active' | 'ghost'> {
    this.#ghosts.delete(name);
    try {
      await execute(['lvchange', '--yes', '--activate', 'y', this.#group.fullName(name)]);
      return 'active';
    } catch (error) {
      const isUnknown = pool !== undefined && error instanceof CommandFailed && /No data available/.test(error.stderr);
      if (!isUnknown) throw new VolumeInactive(name, messageOf(error), { cause: error });
      if (tags.some(showsUse) && !tags.includes(unfinishedTag)) {
        const reason = 'its thin pool does not know it, but its tags show that it was used';
        throw new VolumeInactive(name, reason, { cause: error });
      }
      this.#ghosts.add(name);
      this.#log.error(
        { volume: name },
        `volume ${name} has no device because its creation was interrupted; the next attempt to create it completes it`,
      );
      return 'ghost';
    }
  }

  /** The volume no longer exists; the next one with its name is no ghost. */
  forget(name: string): undefined {
    this.#ghosts.delete(name);
  }
}
