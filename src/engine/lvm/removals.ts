import { CommandFailed } from '../../base/exec.ts';
import { isHeld, mustNotBeBound } from '../device-use.ts';
import { VolumeInUse } from '../errors.ts';
import { askLvm, type Effect } from './effect.ts';
import type { LogicalVolume } from './report.ts';

/** The part of `VolumeGroup` that removals need. */
interface Group {
  readonly name: string;
  get(name: string): LogicalVolume | undefined;
  mustHaveNoSnapshots(name: string): void;
  changeSurely<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T>;
  execute(args: readonly string[], effect: Effect | typeof askLvm): Promise<void>;
  drop(volume: LogicalVolume): void;
}

interface Removal {
  readonly name: string;
  /** Whether the caller may remove the volume that has this name now; throws if it is a different volume. */
  readonly isMine: (volume: LogicalVolume) => boolean | Promise<boolean>;
  readonly done: PromiseWithResolvers<void>;
}

/** The most volumes that fit in one command of LVM's shell. */
const maxTogether = 50;

/**
 * Removes volumes of one group; removals that wait at the same time share one command. If LVM cannot be queried, all of
 * them fail. If a shared command fails, each volume is retried in a command of its own.
 */
export class Removals {
  readonly #group: Group;
  readonly #waiting: Removal[] = [];
  /** Volumes whose removal in a shared command failed. */
  readonly #alone = new Set<string>();
  #isRunning = false;

  constructor(group: Group) {
    this.#group = group;
  }

  /** Succeeds if the volume does not exist. A caller may leave until the removal has begun. */
  async remove(name: string, isMine: Removal['isMine'], signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const removal: Removal = { name, isMine, done: Promise.withResolvers() };
    const leave = () => {
      const at = this.#waiting.indexOf(removal);
      if (at < 0) return;
      this.#waiting.splice(at, 1);
      removal.done.reject(signal.reason);
    };
    signal.addEventListener('abort', leave, { once: true });
    this.#waiting.push(removal);
    if (!this.#isRunning) void this.#run();
    try {
      await removal.done.promise;
    } finally {
      signal.removeEventListener('abort', leave);
    }
  }

  /** Runs while removals wait; other changes of the group may run between two commands. */
  async #run(): Promise<void> {
    this.#isRunning = true;
    while (this.#waiting.length > 0) {
      try {
        await this.#group.changeSurely(neverAborted, () => this.#removeTogether(this.#next()));
      } catch (error) {
        for (const { done } of this.#waiting.splice(0)) done.reject(error); // each would wait for the same timeout
      }
    }
    this.#isRunning = false;
  }

  #next(): Removal[] {
    const isAlone = ({ name }: Removal) => this.#alone.has(name);
    const [first] = this.#waiting;
    if (first && isAlone(first)) return this.#waiting.splice(0, 1);
    const together = this.#waiting.filter((removal) => !isAlone(removal)).slice(0, maxTogether);
    for (const removal of together) this.#waiting.splice(this.#waiting.indexOf(removal), 1);
    return together;
  }

  /** Settles each removal, or queues it again. */
  async #removeTogether(removals: readonly Removal[]): Promise<void> {
    const doomed: Removal[] = [];
    for (const removal of removals) {
      try {
        if (await this.#canBeRemoved(removal)) doomed.push(removal);
        else this.#removed(removal);
      } catch (error) {
        removal.done.reject(error);
      }
    }
    if (doomed.length === 0) return;
    try {
      await this.#lvremove(doomed.map(({ name }) => name));
      for (const removal of doomed) this.#removed(removal);
    } catch (error) {
      const isThere = ({ name }: Removal) => this.#group.get(name) !== undefined; // as reported after the failure
      for (const removal of doomed.filter((removal) => !isThere(removal))) this.#removed(removal);
      this.#tryAlone(doomed.filter(isThere), doomed.length === 1, error);
    }
  }

  /** One volume that cannot be removed must not block the others. */
  #tryAlone(doomed: readonly Removal[], wasAlone: boolean, error: unknown): void {
    if (wasAlone) return this.#refuse(doomed, error);
    for (const { name } of doomed) this.#alone.add(name);
    // LVM refuses quickly, so retry here. After a timeout, each caller decides whether to retry.
    if (error instanceof CommandFailed) this.#waiting.push(...doomed);
    else this.#refuse(doomed, error);
  }

  #removed({ name, done }: Removal): void {
    this.#alone.delete(name);
    done.resolve();
  }

  #refuse(doomed: readonly Removal[], error: unknown): void {
    const inUse = error instanceof CommandFailed && / in use|is used by/.test(error.stderr);
    for (const { name, done } of doomed) {
      const volume = this.#group.get(name);
      done.reject(inUse && volume ? new VolumeInUse(name, volume.path, { cause: error }) : error);
    }
  }

  /** Throws if something prevents the removal. */
  async #canBeRemoved({ name, isMine }: Removal): Promise<boolean> {
    const volume = this.#group.get(name);
    if (!volume || !(await isMine(volume))) return false;
    this.#group.mustHaveNoSnapshots(name); // LVM would remove them too, which nobody requested
    // LVM would retry for seconds while all others wait.
    if (await isHeld(volume.path)) throw new VolumeInUse(name, volume.path);
    await mustNotBeBound(name, volume.path);
    return true;
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

/** LVM commits once for any number of plain volumes, and twice for each thin one: in its pool, then in the group. */
function effectOfRemoving(volumes: readonly LogicalVolume[], apply: () => void): Effect | typeof askLvm {
  if (volumes.every(({ pool }) => pool !== undefined)) return { steps: 2 * volumes.length, apply };
  if (volumes.every(({ attr, pool }) => pool === undefined && attr.startsWith('-'))) return { steps: 1, apply };
  return askLvm;
}

/** A command continues when its caller leaves; the timeout of each LVM command bounds it. */
const neverAborted = new AbortController().signal;
