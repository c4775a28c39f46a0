import { CommandFailed } from '../../base/exec.ts';
import { mustNotBeBound } from '../bound-device.ts';
import { VolumeInUse } from '../errors.ts';
import { isHeld } from './block-device.ts';
import { askLvm, type Effect } from './effect.ts';
import type { LogicalVolume } from './report.ts';

/** What removals need of a volume group; see there. */
interface Group {
  readonly name: string;
  readonly isSure: boolean;
  get(name: string): LogicalVolume | undefined;
  mustHaveNoSnapshots(name: string): void;
  changeSurely<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T>;
  execute(args: readonly string[], effect: Effect | typeof askLvm): Promise<void>;
  ask(): Promise<void>;
  drop(volume: LogicalVolume): void;
}

interface Removal {
  readonly name: string;
  /** Whether the volume that has the name now is the caller's to remove; throws if it is another than was meant. */
  readonly isMine: (volume: LogicalVolume) => boolean;
  readonly signal: AbortSignal;
  readonly done: PromiseWithResolvers<void>;
}

/** As many as LVM's shell takes in one command. */
const maxTogether = 50;

/** Removes volumes of one group: those that wait at the same time go in one command. */
export class Removals {
  readonly #group: Group;
  readonly #waiting: Removal[] = [];

  constructor(group: Group) {
    this.#group = group;
  }

  /** One that is not there is removed already. */
  async remove(name: string, isMine: Removal['isMine'], signal: AbortSignal): Promise<void> {
    const removal: Removal = { name, isMine, signal, done: Promise.withResolvers() };
    removal.done.promise.catch(() => undefined); // its caller may have left
    this.#waiting.push(removal);
    try {
      await this.#group.changeSurely(signal, async () => {
        if (this.#waiting.includes(removal)) await this.#removeTogether(this.#waiting.splice(0, maxTogether));
      });
      await removal.done.promise;
    } finally {
      const at = this.#waiting.indexOf(removal);
      if (at >= 0) this.#waiting.splice(at, 1);
    }
  }

  async #removeTogether(removals: readonly Removal[]): Promise<void> {
    // "Not there" is a promise that its space is free again: memory alone is not enough to give it.
    if (!this.#group.isSure && removals.some(({ name }) => !this.#group.get(name))) await this.#group.ask();
    const doomed: Removal[] = [];
    for (const removal of removals.filter(({ signal }) => !signal.aborted)) {
      try {
        if (await this.#canBeRemoved(removal)) doomed.push(removal);
        else removal.done.resolve();
      } catch (error) {
        removal.done.reject(error);
      }
    }
    if (doomed.length === 0) return;
    try {
      await this.#lvremove(doomed.map(({ name }) => name));
      for (const { done } of doomed) done.resolve();
    } catch (error) {
      await this.#sortOut(doomed, error);
    }
  }

  /** Throws what would stand against it. */
  async #canBeRemoved({ name, isMine }: Removal): Promise<boolean> {
    const volume = this.#group.get(name);
    if (!volume || !isMine(volume)) return false;
    this.#group.mustHaveNoSnapshots(name); // LVM would remove them too, and nobody has asked for that
    // LVM would try for seconds, and everybody else would wait.
    if (await isHeld(volume.path)) throw new VolumeInUse(name, volume.path);
    await mustNotBeBound(name, volume.path);
    return true;
  }

  /** One that cannot be removed must not keep the others: each is tried alone, and gets its own answer. */
  async #sortOut(doomed: readonly Removal[], error: unknown): Promise<void> {
    for (const { name, done } of doomed) {
      const volume = this.#group.get(name);
      try {
        if (volume && doomed.length === 1) throw error;
        if (volume) await this.#lvremove([name]);
        done.resolve();
      } catch (reason) {
        const inUse = reason instanceof CommandFailed && / in use|is used by/.test(reason.stderr);
        done.reject(inUse && volume ? new VolumeInUse(name, volume.path, { cause: reason }) : reason);
      }
    }
  }

  async #lvremove(names: readonly string[]): Promise<void> {
    const volumes = names.flatMap((name) => this.#group.get(name) ?? []);
    const paths = volumes.map(({ name }) => `${this.#group.name}/${name}`);
    const apply = () => {
      for (const volume of volumes) this.#group.drop(volume);
    };
    await this.#group.execute(['lvremove', '--yes', ...paths], effectOfRemoving(volumes, apply));
  }
}

/** LVM removes plain volumes in one step, and thin ones in two each: first from the pool, then from the group. */
function effectOfRemoving(volumes: readonly LogicalVolume[], apply: () => void): Effect | typeof askLvm {
  if (volumes.every(({ pool }) => pool !== undefined)) return { steps: 2 * volumes.length, apply };
  if (volumes.every(({ attr, pool }) => pool === undefined && attr.startsWith('-'))) return { steps: 1, apply };
  return askLvm;
}
