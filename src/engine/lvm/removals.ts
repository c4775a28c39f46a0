import { CommandFailed } from '../../base/exec.ts';
import { exists } from '../../base/exists.ts';
import type { ErasePolicy } from '../config/device-classes.ts';
import { isHeld, mustNotBeBound } from '../device-use.ts';
import { canDiscard } from '../erase/erasable.ts';
import { erasureIn, policyOnRemoval } from '../erase/erasure-tags.ts';
import { VolumeBeingErased, VolumeInUse } from '../errors.ts';
import { askLvm, type Effect, type GroupMemory, isIn, type Place } from './group-memory.ts';
import type { Lvm } from './lvm.ts';
import type { LogicalVolume } from './report.ts';

/** A volume of one class, or the one that was erased. Any other volume with its name is not removed. */
export type RemovalRequest = { readonly name: string } & (
  | { readonly place: Place; readonly classPolicy: ErasePolicy }
  | { readonly erasedUuid: string }
);

/**
 * Absent: there was no such volume. To be discarded: LVM is configured to discard freed space and the disks support it;
 * that has to be done before the removal. To be erased: its policy says so, or it has a LUKS header, whose keys have to be
 * destroyed first.
 */
export type RemovalOutcome = 'removed' | 'absent' | 'to be discarded' | 'to be erased';

/** A removal whose caller waits. */
interface Waiting {
  readonly removal: RemovalRequest;
  readonly done: PromiseWithResolvers<RemovalOutcome>;
  /** An earlier command was to remove the volume, and failed. */
  wasTried: boolean;
}

/** The most volumes that fit in one command of LVM's shell. */
const maxTogether = 50;

/**
 * The removals that wait for one group; those that wait at the same time share one command. If a shared command fails,
 * each volume is retried in a command of its own. The group runs the commands.
 */
export class Removals {
  readonly #memory: GroupMemory;
  readonly #lvm: Lvm;
  readonly #waiting: Waiting[] = [];
  /** Volumes whose removal in a shared command failed. */
  readonly #alone = new Set<string>();

  constructor(memory: GroupMemory, lvm: Lvm) {
    this.#memory = memory;
    this.#lvm = lvm;
  }

  get isEmpty(): boolean {
    return this.#waiting.length === 0;
  }

  /** Resolves when the removal is done. A caller may leave until it has begun. */
  async join(removal: RemovalRequest, signal: AbortSignal): Promise<RemovalOutcome> {
    signal.throwIfAborted();
    const waiting: Waiting = { removal, done: Promise.withResolvers(), wasTried: false };
    const leave = () => {
      const at = this.#waiting.indexOf(waiting);
      if (at < 0) return;
      this.#waiting.splice(at, 1);
      waiting.done.reject(signal.reason);
    };
    signal.addEventListener('abort', leave, { once: true });
    this.#waiting.push(waiting);
    try {
      return await waiting.done.promise;
    } finally {
      signal.removeEventListener('abort', leave);
    }
  }

  /** Within `changeSurely`: takes the removals of the next command. Those that need none or are refused are settled. */
  async begin(): Promise<readonly Waiting[]> {
    const begun: Waiting[] = [];
    for (const waiting of this.#next()) {
      try {
        const outcome = await this.#outcomeWithout(waiting.removal);
        if (outcome === undefined) begun.push(waiting);
        else this.#settle(waiting, waiting.wasTried && outcome === 'absent' ? 'removed' : outcome);
      } catch (error) {
        waiting.done.reject(error);
      }
    }
    return begun;
  }

  succeed(begun: readonly Waiting[]): void {
    for (const waiting of begun) this.#settle(waiting, 'removed');
  }

  /** One volume that cannot be removed must not block the others. */
  fail(begun: readonly Waiting[], error: unknown): void {
    const isThere = ({ removal }: Waiting) => this.#memory.get(removal.name) !== undefined; // as read after the failure
    this.succeed(begun.filter((waiting) => !isThere(waiting)));
    const left = begun.filter(isThere);
    if (begun.length === 1) return this.#refuse(left, error);
    for (const waiting of left) {
      waiting.wasTried = true;
      this.#alone.add(waiting.removal.name);
    }
    // LVM refuses quickly, so retry here. After a timeout, each caller decides whether to retry.
    if (error instanceof CommandFailed) this.#waiting.push(...left);
    else this.#refuse(left, error);
  }

  /** LVM cannot be queried: each would wait for the same timeout. */
  failAll(error: unknown): void {
    for (const { done } of this.#waiting.splice(0)) done.reject(error);
  }

  #next(): Waiting[] {
    const isAlone = ({ removal }: Waiting) => this.#alone.has(removal.name);
    const [first] = this.#waiting;
    if (first && isAlone(first)) return this.#waiting.splice(0, 1);
    const together = this.#waiting.filter((waiting) => !isAlone(waiting)).slice(0, maxTogether);
    for (const waiting of together) this.#waiting.splice(this.#waiting.indexOf(waiting), 1);
    return together;
  }

  /** The outcome if nothing is to be removed now, otherwise undefined. Throws if something prevents the removal. */
  async #outcomeWithout(removal: RemovalRequest): Promise<RemovalOutcome | undefined> {
    const { name } = removal;
    const volume = this.#memory.get(name);
    if (!volume) return 'absent';
    if ('erasedUuid' in removal) {
      this.#memory.mustBeMarked(name, removal.erasedUuid);
    } else {
      if (!isIn(removal.place, volume)) return 'absent';
      if (erasureIn(volume.tags)) throw new VolumeBeingErased(name); // it may have started in the meantime
      if (policyOnRemoval(volume.tags, removal.classPolicy).kind !== 'none') return 'to be erased';
      if (await this.#mustDiscard(volume)) return 'to be discarded';
      if (this.#memory.hasOwnHeader(volume)) return 'to be erased';
    }
    this.#memory.mustHaveNoSnapshots(name); // LVM would remove them too, which nobody requested
    // LVM would retry for seconds while all others wait.
    if (await isHeld(volume.path)) throw new VolumeInUse(name, volume.path);
    await mustNotBeBound(name, volume.path);
    return undefined;
  }

  async #mustDiscard({ path, pool }: LogicalVolume): Promise<boolean> {
    if (pool !== undefined || !(await exists(path))) return false;
    return (await canDiscard(path)) && this.#lvm.issuesDiscards();
  }

  #settle({ removal, done }: Waiting, outcome: RemovalOutcome): void {
    this.#alone.delete(removal.name);
    done.resolve(outcome);
  }

  #refuse(refused: readonly Waiting[], error: unknown): void {
    const inUse = error instanceof CommandFailed && / in use|is used by/.test(error.stderr);
    for (const { removal, done } of refused) {
      const volume = this.#memory.get(removal.name);
      done.reject(inUse && volume ? new VolumeInUse(volume.name, volume.path, { cause: error }) : error);
    }
  }
}

/** LVM commits once for any number of plain volumes, and twice for each thin one: in its pool, then in the group. */
export function effectOfRemoving(volumes: readonly LogicalVolume[]): Effect | typeof askLvm {
  const apply = (memory: GroupMemory) => {
    for (const volume of volumes) memory.drop(volume);
  };
  if (volumes.every(({ pool }) => pool !== undefined)) return { steps: 2 * volumes.length, apply };
  if (volumes.every(({ attr, pool }) => pool === undefined && attr.startsWith('-'))) return { steps: 1, apply };
  return askLvm;
}
