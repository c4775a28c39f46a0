import { CommandFailed } from '../../base/exec.ts';
import { exists } from '../../base/exists.ts';
import type { Log } from '../../base/log.ts';
import type { ErasePolicy, LvmClass, OptionClass } from '../config/device-classes.ts';
import { isHeld } from '../device-use.ts';
import { canDiscard } from '../erase/eraser.ts';
import { erasureIn } from '../erase/erasure.ts';
import type { Erasures } from '../erase/erasures.ts';
import {
  NameTaken,
  NameTakenByOther,
  NotMadeHere,
  OptionClassNotFound,
  VolumeBeingErased,
  VolumeExists,
  VolumeInUse,
  VolumeNotFound,
} from '../errors.ts';
import type { Capacity, Erasure, NewSnapshot, NewVolume, PoolSettings, ServedPool, Volume, VolumeId } from '../pool.ts';
import {
  contentTags,
  createdTag,
  isMadeHere,
  replacedTags,
  sourceIn,
  sourceTag,
  tellsOfUse,
  unusedTag,
} from '../tags.ts';
import { checkAddedTags, checkNewTags, checkNewVolume, checkVolumeId } from '../volume-id.ts';
import { Activation } from './activation.ts';
import { askLvm } from './effect.ts';
import { markForErasure, resumeErasures } from './lvm-erasure.ts';
import type { LogicalVolume } from './report.ts';
import { toVolume } from './to-volume.ts';
import type { VolumeGroup } from './volume-group.ts';
import { changeTags } from './volume-group.ts';

export interface LvmPoolOptions<Class extends LvmClass> {
  readonly deviceClass: Class;
  readonly optionClasses: readonly OptionClass[];
  readonly group: VolumeGroup;
  readonly erasures: Erasures;
  readonly log: Log;
}

/** What thick and thin pools share: volumes of one volume group, cached in memory and changed under its lock. */
export abstract class LvmPool<Class extends LvmClass> implements ServedPool {
  readonly name: string;
  protected readonly group: VolumeGroup;
  protected readonly log: Log;
  protected deviceClass: Class;
  #optionClasses: readonly OptionClass[];
  readonly #erasures: Erasures;
  readonly #activation: Activation;
  /** Volumes that this process created, so LVM has wiped them. */
  readonly #wiped = new Set<VolumeId>();

  protected constructor({ deviceClass, optionClasses, group, erasures, log }: LvmPoolOptions<Class>) {
    this.name = deviceClass.name;
    this.group = group;
    this.deviceClass = deviceClass;
    this.#optionClasses = optionClasses;
    this.#erasures = erasures;
    this.log = log.child({ deviceClass: deviceClass.name });
    this.#activation = new Activation(group, this.log);
  }

  abstract capacity(): Capacity;
  abstract grow(id: VolumeId, sizeBytes: bigint, signal: AbortSignal): Promise<Volume>;
  abstract snapshot(source: VolumeId, wanted: NewSnapshot, signal: AbortSignal): Promise<Volume>;

  /** Whether a logical volume of the group belongs to this pool. */
  protected abstract owns(volume: LogicalVolume): boolean;
  /** Whether the creation of a volume was completed: a crash can interrupt it. */
  protected abstract isWhole(volume: LogicalVolume): boolean;
  /** Within `change`: creates a volume that does not exist. */
  protected abstract make(wanted: NewVolume, tags: readonly string[]): Promise<void>;

  /** Activates what a reboot left inactive, and resumes erasures that a crash interrupted. */
  protected async resume(signal: AbortSignal): Promise<void> {
    await this.group.change(signal, async () => {
      await this.#activation.activateAll(() => this.#owned(), signal);
      for (const volume of this.#owned().filter((volume) => !this.isWhole(volume))) this.#tellOfHalf(volume);
    });
    this.#resumeErasures();
  }

  list(): readonly Volume[] {
    return this.#owned()
      .filter((volume) => this.#canBeUsed(volume))
      .map(toVolume);
  }

  get(id: VolumeId): Volume | undefined {
    const volume = this.find(id);
    return volume && this.#canBeUsed(volume) ? toVolume(volume) : undefined;
  }

  erasures(): readonly Erasure[] {
    return this.#erasures.list();
  }

  isChanging(): boolean {
    return this.group.isChanging;
  }

  onChange(listener: () => void): () => void {
    return this.group.onChange(listener);
  }

  async refresh(signal: AbortSignal): Promise<void> {
    await this.group.refresh(signal);
    this.#resumeErasures();
  }

  reconfigure({ deviceClass, optionClasses }: PoolSettings): void {
    this.deviceClass = deviceClass as Class;
    this.#optionClasses = optionClasses;
  }

  async stop(graceMs: number): Promise<void> {
    await this.#erasures.stop(graceMs);
  }

  async create(wanted: NewVolume, signal: AbortSignal): Promise<Volume> {
    checkNewVolume(wanted);
    return this.group.change(signal, async () => {
      if (!(await this.#usable(wanted, undefined)))
        await this.make(wanted, [...wanted.tags, createdTag]).catch((error) => this.#mustBeThere(wanted, error));
      this.#wiped.add(wanted.id);
      const volume = this.mustHave(wanted.id);
      if (volume.sizeBytes >= wanted.sizeBytes) return toVolume(volume);
      throw new VolumeExists(this.name, wanted.id, volume.sizeBytes, wanted.sizeBytes);
    });
  }

  async addTags(id: VolumeId, tags: readonly string[], signal: AbortSignal): Promise<Volume> {
    checkAddedTags(tags);
    return this.group.changeSurely(signal, async () => {
      const volume = this.mustHave(id);
      const missing = tags.filter((tag) => !volume.tags.includes(tag));
      if (missing.length > 0) {
        const isFirstUse = missing.some(tellsOfUse) && volume.tags.includes(unusedTag);
        const remove = [...replacedTags(volume.tags, missing), ...(isFirstUse ? [unusedTag] : [])];
        await changeTags(this.group, volume, { add: missing, remove });
      }
      return toVolume(this.mustHave(id));
    });
  }

  async remove(id: VolumeId, signal: AbortSignal): Promise<boolean> {
    checkVolumeId(id); // the ID becomes part of the removed path
    this.#wiped.delete(id);
    let wasThere = false;
    let erase: ErasePolicy = this.deviceClass.erase;
    if (erase.kind === 'none' && !this.#isBeingErased(id)) {
      const isMine = async () => {
        wasThere = this.find(id) !== undefined;
        if (!wasThere) return false;
        const volume = this.mustHave(id); // an erasure may have started in the meantime
        if (await this.#mustDiscard(volume)) erase = { kind: 'discard' };
        return erase.kind === 'none';
      };
      await this.group.removals.remove(id, isMine, signal);
      if (erase.kind === 'none') return wasThere;
    }
    await this.group.change(signal, async () => {
      await this.group.ask(); // memory does not know whether the volume is open, and may lack its UUID
      const volume = this.find(id);
      wasThere = volume !== undefined || this.#erasures.has(id);
      if (volume) await this.#beginErasure(volume, erase);
    });
    this.#resumeErasures();
    await this.#erasures.join(id, signal);
    return wasThere;
  }

  protected find(id: VolumeId): LogicalVolume | undefined {
    const volume = this.group.get(id);
    return volume && this.owns(volume) ? volume : undefined;
  }

  /** Within `change`: a usable volume; fails for one that is being erased. */
  protected mustHave(id: VolumeId): LogicalVolume {
    const volume = this.find(id);
    if (!volume) throw new VolumeNotFound(this.name, id);
    if (erasureIn(volume.tags)) throw new VolumeBeingErased(id);
    return volume;
  }

  /** Within `change`: a volume that can be copied. A volume whose creation was interrupted counts as not found. */
  protected mustHaveWhole(id: VolumeId): LogicalVolume {
    const volume = this.mustHave(id);
    if (this.isWhole(volume)) return volume;
    throw new VolumeNotFound(this.name, id);
  }

  /** Within `change`: the snapshot that an earlier call created, or undefined. */
  protected async madeSnapshot(source: VolumeId, wanted: NewSnapshot): Promise<LogicalVolume | undefined> {
    checkVolumeId(wanted.id);
    checkNewTags(wanted.tags);
    return this.#usable(wanted, source);
  }

  /** The lvcreate arguments that all snapshots share. */
  protected snapshotWords(source: LogicalVolume, { id, tags, access }: NewSnapshot): string[] {
    const allTags = new Set([...tags, ...contentTags(source.tags), sourceTag(source.name)]);
    return [
      ...['lvcreate', '--yes', '--snapshot', '--name', id],
      ...['--permission', access === 'ro' ? 'r' : 'rw'],
      ...[...allTags].flatMap((tag) => ['--addtag', tag]),
    ];
  }

  /** The lvcreate options of the option class that the volume requests; undefined for those of the device class. */
  protected optionsFor({ optionClass }: NewVolume): readonly string[] | undefined {
    if (!optionClass) return undefined;
    const found = this.#optionClasses.find(({ name }) => name === optionClass);
    if (found) return found.options;
    throw new OptionClassNotFound(
      optionClass,
      this.#optionClasses.map(({ name }) => name),
    );
  }

  protected path(id: VolumeId): string {
    return `${this.group.name}/${id}`;
  }

  /** If somebody else created the volume just before us, treat it as if it had existed all along. */
  #mustBeThere(wanted: NewVolume, error: unknown): void {
    const wasFaster = error instanceof CommandFailed && /already exists/.test(error.stderr);
    const volume = this.find(wanted.id);
    if (!wasFaster || !volume) throw error;
    this.#mustBeOurs(volume, wanted.tags);
  }

  /** Never hands out a volume that merely has the same name, such as an administrator's. */
  #mustBeOurs({ name, tags }: LogicalVolume, wantedTags: readonly string[]): void {
    if (!isMadeHere(tags, wantedTags)) throw new NotMadeHere(this.name, name);
  }

  /** An erasure that has begun is completed, even if the class no longer erases. */
  #isBeingErased(id: VolumeId): boolean {
    const volume = this.find(id);
    return volume !== undefined && erasureIn(volume.tags) !== undefined;
  }

  #canBeUsed(volume: LogicalVolume): boolean {
    return this.isWhole(volume) && !this.#activation.isGhost(volume) && !erasureIn(volume.tags);
  }

  #owned(): LogicalVolume[] {
    return this.group.volumes().filter((volume) => this.owns(volume));
  }

  /** Within `change`: whether LVM is configured to discard freed space and the disks support it. */
  async #mustDiscard({ path, pool }: LogicalVolume): Promise<boolean> {
    if (pool !== undefined || !(await exists(path))) return false;
    return (await canDiscard(path)) && this.group.lvm.issuesDiscards();
  }

  /** Within `change`. A ghost has no data and no device, so it is removed without an erasure. */
  async #beginErasure(volume: LogicalVolume, policy: ErasePolicy): Promise<void> {
    const { name, active } = volume;
    if (!active && (await this.#activation.activate(volume)) === 'ghost') {
      await this.group.execute(['lvremove', '--yes', this.path(name)], askLvm);
      return this.#activation.forget(name);
    }
    const present = this.find(name);
    if (present) await markForErasure(this.group, present, policy);
  }

  #resumeErasures(): void {
    resumeErasures(this.group, this.#owned(), this.#erasures);
  }

  /**
   * Within `change`: what a retry finds. What an interrupted attempt at the same request left behind is removed; what
   * may hold data is not.
   */
  async #usable(
    { id, tags }: NewVolume | NewSnapshot,
    source: VolumeId | undefined,
  ): Promise<LogicalVolume | undefined> {
    if (this.#erasures.has(id)) throw new VolumeBeingErased(id); // even if somebody removed the volume in the meantime
    const volume = this.group.get(id);
    if (!volume) return this.#activation.forget(id);
    if (!this.owns(volume)) throw new NameTakenByOther(id, this.group.name);
    if (erasureIn(volume.tags)) throw new VolumeBeingErased(id);
    if (sourceOf(volume) !== source) throw new NameTaken(this.name, id, source);
    this.#mustBeOurs(volume, tags);
    const isThere = volume.active || (await this.#activation.activate(volume)) === 'active';
    if (this.isWhole(volume) && isThere) {
      if (!(await this.#mayBeUnwiped(volume))) return this.mustHave(id);
      await this.group.ask(); // somebody may have started to use it
      if (!(await this.#mayBeUnwiped(this.mustHave(id)))) return this.mustHave(id);
    } else {
      await this.#mustBeUnused(volume, source);
    }
    this.log.warn({ volume: id }, `creation of volume ${id} was interrupted; re-creating it`);
    await this.group.execute(['lvremove', '--yes', '--force', this.path(id)], askLvm);
    return this.#activation.forget(id);
  }

  /**
   * LVM commits a new volume before it wipes it. A volume that an earlier process created may therefore show old data
   * from the disk. It is re-created only if nobody can have used it.
   */
  async #mayBeUnwiped({ name, path, pool, tags }: LogicalVolume): Promise<boolean> {
    if (pool !== undefined || sourceIn(tags) !== undefined || this.#wiped.has(name) || !tags.includes(unusedTag)) {
      return false;
    }
    const hasSnapshots = this.group.volumes().some(({ origin }) => origin === name);
    return !hasSnapshots && !(await isHeld(path));
  }

  /** A copy inherits the usage tags of its source; they do not mean that the copy was used. */
  async #mustBeUnused({ name, path, tags }: LogicalVolume, source: VolumeId | undefined): Promise<void> {
    const inherited = source === undefined ? [] : (this.group.get(source)?.tags ?? []);
    if (tags.some((tag) => tellsOfUse(tag) && !inherited.includes(tag))) throw new NameTaken(this.name, name, source);
    this.group.mustHaveNoSnapshots(name);
    if (await isHeld(path)) throw new VolumeInUse(name, path);
  }

  #tellOfHalf({ name }: LogicalVolume): void {
    this.log.error({ volume: name }, `creation of volume ${name} was interrupted; create it again, or remove it`);
  }
}

/** The source of a snapshot, whoever created it; the source may no longer exist. */
function sourceOf({ origin, tags }: LogicalVolume): VolumeId | undefined {
  return origin ?? sourceIn(tags);
}
