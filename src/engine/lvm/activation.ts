import { messageOf } from '../../base/errors.ts';
import { CommandFailed } from '../../base/exec.ts';
import type { Log } from '../../base/log.ts';
import { VolumeInactive } from '../errors.ts';
import { createdTag, showsUse, unfinishedTag } from '../tags.ts';
import { askLvm, type Place } from './group-memory.ts';
import type { LogicalVolume } from './report.ts';
import type { VolumeGroup } from './volume-group.ts';

/**
 * Activates volumes after a reboot.
 *
 * A thin volume that the group knows and its pool does not is a ghost: power was lost during its creation, so it was
 * never handed out and holds no data. A volume is a ghost only if the kernel reports this, and no tag shows that the
 * volume was used: a used volume that its pool does not know is lost data, which may still be recoverable.
 */
export class Activation {
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
    for (const volume of this.#inactive().filter(({ tags }) => tags.includes(createdTag))) {
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
        `volume ${name} has no device because its creation was interrupted; create it again, or remove it`,
      );
      return 'ghost';
    }
  }

  /** The volume no longer exists; the next one with its name is no ghost. */
  forget(name: string): undefined {
    this.#ghosts.delete(name);
  }
}
