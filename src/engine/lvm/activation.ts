import { messageOf } from '../../base/errors.ts';
import { CommandFailed } from '../../base/exec.ts';
import type { Log } from '../../base/log.ts';
import { VolumeInactive } from '../errors.ts';
import { createdTag, tellsOfUse, unfinishedTag } from '../tags.ts';
import { askLvm } from './effect.ts';
import type { LogicalVolume } from './report.ts';
import type { VolumeGroup } from './volume-group.ts';

/**
 * Gives volumes their devices after a reboot.
 *
 * A thin volume that the group knows and its pool does not is a ghost: power was lost between the two, so it was never
 * handed out and holds nothing. Only the kernel's own word for that makes a volume one, and only if no tag tells of its
 * use: what was used and is unknown to its pool now is data that was lost, and somebody may yet find it again.
 */
export class Activation {
  readonly #group: VolumeGroup;
  readonly #log: Log;
  readonly #ghosts = new Set<string>();

  constructor(group: VolumeGroup, log: Log) {
    this.#group = group;
    this.#log = log;
  }

  isGhost({ name, active }: LogicalVolume): boolean {
    return !active && this.#ghosts.has(name);
  }

  /**
   * Within `change`: all that should have a device, by the node's own rules; and our own in any case. Where LVM checks a
   * thin pool first, that takes long.
   */
  async activateAll(owned: () => readonly LogicalVolume[], signal: AbortSignal): Promise<void> {
    const inactive = () => owned().filter(({ active, attr }) => !active && attr.charAt(9) !== 'k'); // k: told to be without
    const count = inactive().length;
    if (count === 0) return;
    this.#log.info(`activating volume group ${this.#group.name}: ${count} volumes have no device`);
    try {
      await this.#group.activate(['vgchange', '--yes', '--activate', 'ay', this.#group.name], signal);
    } catch (error) {
      if (!(error instanceof CommandFailed)) throw error;
      this.#log.warn({ err: error }, `not every volume could be activated: ${messageOf(error)}`);
    }
    for (const volume of inactive().filter(({ tags }) => tags.includes(createdTag))) {
      try {
        await this.#activate(volume, (words) => this.#group.activate(words, signal));
      } catch (error) {
        signal.throwIfAborted();
        // One without a device (a disk is gone, say) must not keep all the others from being served.
        this.#log.error({ err: error, volume: volume.name }, `a volume cannot be used: ${messageOf(error)}`);
      }
    }
  }

  /** Within `change`, for somebody who waits. */
  async activate(volume: LogicalVolume): Promise<'active' | 'ghost'> {
    return this.#activate(volume, (words) => this.#group.execute(words, askLvm));
  }

  async #activate(
    { name, pool, tags }: LogicalVolume,
    execute: (words: readonly string[]) => Promise<void>,
  ): Promise<'active' | 'ghost'> {
    this.#ghosts.delete(name);
    try {
      await execute(['lvchange', '--yes', '--activate', 'y', `${this.#group.name}/${name}`]);
      return 'active';
    } catch (error) {
      const isUnknown = pool !== undefined && error instanceof CommandFailed && /No data available/.test(error.stderr);
      if (!isUnknown) throw new VolumeInactive(name, messageOf(error), { cause: error });
      if (tags.some(tellsOfUse) && !tags.includes(unfinishedTag)) {
        const reason = 'its thin pool does not know it, though its tags tell that it was used';
        throw new VolumeInactive(name, reason, { cause: error });
      }
      this.#ghosts.add(name);
      this.#log.error(
        { volume: name },
        `volume ${name} is a ghost of an interrupted creation; create it again, or remove it`,
      );
      return 'ghost';
    }
  }

  /** There is no such volume; the next one of its name is no ghost. */
  forget(name: string): undefined {
    this.#ghosts.delete(name);
  }
}
