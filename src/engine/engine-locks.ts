import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { close, open } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import { promisify } from 'node:util';
import { MoorageError, messageOf } from '../base/errors.ts';
import type { DeviceClass, FileClass } from './config/device-classes.ts';
import { PoolMissing } from './errors.ts';
import type { OpenPool } from './pool.ts';

// File descriptors, as FileHandles are closed when they are garbage collected.
const openNumber = promisify(open);
const closeNumber = promisify(close);

/** Enough for an engine that was just killed to exit. */
const waitSeconds = 2;
const conflictCode = 75;
const hangsMs = 10_000;

interface SharedLock {
  readonly file: Promise<number>;
  users: number;
}

/**
 * Keeps two engines off the same volume group or directory, as neither would see the other's changes. Their sockets do
 * not matter. The kernel holds a lock while this process has its file open, so the lock ends with the process. Child
 * processes do not inherit the file.
 */
export class EngineLocks {
  readonly #directory: string;
  readonly #groups = new Map<string, SharedLock>();

  /** `lvmRoot` is the root directory of LVM's mount namespace. */
  constructor(lvmRoot: string) {
    // LVM's own lock directory: all users of LVM on a node share it, in whichever container they run.
    this.#directory = `${lvmRoot}/run/lock/lvm`;
  }

  /** Opens pools like `open`, unless another engine serves the same volume group or directory. */
  guard(open: OpenPool): OpenPool {
    return async (settings, signal) => {
      await using taken = await this.#take(settings.deviceClass);
      const pool = await open(settings, signal);
      const held = taken.move(); // the pool keeps the lock until it is stopped
      const stop = pool.stop.bind(pool);
      pool.stop = async (graceMs) => {
        await using _ = held;
        await stop(graceMs);
      };
      return pool;
    };
  }

  async #take(deviceClass: DeviceClass): Promise<AsyncDisposableStack> {
    await using taken = new AsyncDisposableStack();
    if (deviceClass.type === 'file') {
      const file = await lockDirectory(deviceClass);
      taken.defer(() => closeNumber(file));
    } else {
      const lock = this.#shared(deviceClass.volumeGroup);
      taken.defer(() => this.#leave(deviceClass.volumeGroup, lock));
      await lock.file;
    }
    return taken.move();
  }

  /** Classes of one volume group share its lock. */
  #shared(group: string): SharedLock {
    const lock = this.#groups.get(group) ?? { file: this.#lockGroup(group), users: 0 };
    this.#groups.set(group, lock);
    lock.users += 1;
    return lock;
  }

  async #leave(group: string, lock: SharedLock): Promise<void> {
    lock.users -= 1;
    if (lock.users > 0) return;
    this.#groups.delete(group);
    const [file] = await Promise.allSettled([lock.file]);
    if (file.status === 'fulfilled') await closeNumber(file.value); // else it was never locked
  }

  async #lockGroup(name: string): Promise<number> {
    const path = `${this.#directory}/moorage:${name}`; // LVM's own names start differently
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    return locked(path, await openNumber(path, 'a', 0o600), `volume group ${name}`);
  }
}

/** Locks the directory itself, which is the same through every path. */
async function lockDirectory({ name, path }: FileClass): Promise<number> {
  const directory = await openNumber(path, 'r').catch((cause: unknown) => {
    throw new PoolMissing(
      `cannot read directory ${path} of device class ${name} (${messageOf(cause)}); create it, or correct path`,
      { cause },
    );
  });
  return locked(path, directory, `directory ${path}`);
}

async function locked(path: string, file: number, what: string): Promise<number> {
  try {
    await flock(path, file, what);
    return file;
  } catch (error) {
    await closeNumber(file);
    throw error;
  }
}

/** The lock belongs to the open file that flock inherits: it stays after flock exits, until we close the file. */
async function flock(path: string, file: number, what: string): Promise<void> {
  const words = ['--exclusive', '--wait', String(waitSeconds), '--conflict-exit-code', String(conflictCode), '3'];
  const child = spawn('flock', words, { stdio: ['ignore', 'ignore', 'ignore', file], timeout: hangsMs });
  const [exitCode, signal] = await once(child, 'exit').catch((error: unknown) => {
    throw new CannotLock(what, messageOf(error), { cause: error });
  });
  if (exitCode === conflictCode) throw new ServedElsewhere(what, path);
  if (exitCode !== 0) throw new CannotLock(what, `flock ended with ${exitCode ?? signal}`);
}

export class ServedElsewhere extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(what: string, path: string) {
    const seen = path.replace(/^\/proc\/\d+\/root/, '');
    super(
      `${what} is served by another engine; stop it, or leave the device class out of one of the two configurations ` +
        `(fuser -v ${seen} on the node shows its process)`,
    );
  }
}

class CannotLock extends MoorageError {
  readonly code = 'Unavailable';

  constructor(what: string, reason: string, options?: ErrorOptions) {
    super(`cannot lock ${what} against other engines: ${reason}; check that util-linux is installed`, options);
  }
}
