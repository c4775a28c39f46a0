import { type BigIntStats, statSync, watch } from 'node:fs';
import { dirname, join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { type DeviceNumber, splitDeviceNumber } from '../base/device-number.ts';
import { messageOf } from '../base/errors.ts';
import type { Log } from '../base/log.ts';

/** The device names of the system. */
export interface DeviceTree {
  stat(path: string): Pick<BigIntStats, 'ino' | 'rdev' | 'isBlockDevice'> | undefined;
  /** Reports each name in the directory that is created, removed or re-created; null can be any name. Returns how to stop. */
  watch(directory: string, onChange: (name: string | null) => void, onLost: (error: Error) => void): () => void;
}

const systemTree: DeviceTree = {
  stat: (path) => statSync(path, { throwIfNoEntry: false, bigint: true }), // synchronous, because /dev is in memory
  watch: (directory, onChange, onLost) => {
    const watcher = watch(directory, { persistent: false }, (_, name) => onChange(name)).on('error', onLost);
    return () => watcher.close();
  },
};

/** A directory with device names. */
interface Directory {
  /** Distinguishes the watched directory from a later one with the same name. */
  readonly inode: bigint;
  readonly stopWatching: () => void;
  /** By path. */
  readonly numbers: Map<string, DeviceNumber>;
}

const none: DeviceNumber = { major: 0, minor: 0 };

/** Events from before the call may still be unread; they are read between two turns of the event loop. */
async function pendingEvents(): Promise<void> {
  await nextTurn();
  await nextTurn();
}

/**
 * Device numbers by path. When a device is added, removed or renumbered, its name in /dev is re-created, and the kernel
 * reports that. So a list of hundreds of volumes looks up only the few that changed since the last list.
 */
export class DeviceNumbers {
  readonly #log: Log;
  readonly #tree: DeviceTree;
  readonly #directories = new Map<string, Directory>();
  #lossLogged = false;

  constructor(log: Log, tree: DeviceTree = systemTree) {
    this.#log = log;
    this.#tree = tree;
  }

  /** In the order of the paths; zeros for a path without a device. */
  async of(devicePaths: readonly string[]): Promise<readonly DeviceNumber[]> {
    await pendingEvents();
    const numbersIn = new Map<string, Directory['numbers']>();
    return devicePaths.map((devicePath) => {
      const directory = dirname(devicePath);
      const numbers = numbersIn.get(directory) ?? this.#numbersIn(directory);
      numbersIn.set(directory, numbers);
      const known = numbers.get(devicePath);
      if (known) return known;
      const number = this.#read(devicePath);
      numbers.set(devicePath, number);
      return number;
    });
  }

  #numbersIn(path: string): Directory['numbers'] {
    const inode = this.#tree.stat(path)?.ino;
    const known = this.#directories.get(path);
    if (known && known.inode === inode) return known.numbers;
    this.#forget(path);
    return inode === undefined ? new Map() : this.#watch(path, inode);
  }

  /** A directory that cannot be watched is not cached. */
  #watch(path: string, inode: bigint): Directory['numbers'] {
    const numbers: Directory['numbers'] = new Map();
    const onChange = (name: string | null) => {
      if (name === null) numbers.clear();
      else numbers.delete(join(path, name));
    };
    try {
      const stopWatching = this.#tree.watch(path, onChange, (error) => this.#lose(path, error));
      this.#directories.set(path, { inode, stopWatching, numbers });
      this.#lossLogged = false;
    } catch (error) {
      this.#lose(path, error);
    }
    return numbers;
  }

  #lose(path: string, error: unknown): void {
    this.#forget(path);
    if (this.#lossLogged) return; // the next list tries again
    this.#lossLogged = true;
    this.#log.warn({ err: error }, `cannot watch ${path}, so lists of volumes take longer: ${messageOf(error)}`);
  }

  #forget(path: string): void {
    this.#directories.get(path)?.stopWatching();
    this.#directories.delete(path);
  }

  #read(devicePath: string): DeviceNumber {
    const device = this.#tree.stat(devicePath);
    return device?.isBlockDevice() ? splitDeviceNumber(device.rdev) : none;
  }
}
