import { type BigIntStats, statSync, watch } from 'node:fs';
import { dirname, join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { type DeviceNumber, splitDeviceNumber } from '../base/device-number.ts';
import { messageOf } from '../base/errors.ts';
import type { Log } from '../base/log.ts';

/** The names of devices, as the system has them. */
export interface DeviceTree {
  stat(path: string): Pick<BigIntStats, 'ino' | 'rdev' | 'isBlockDevice'> | undefined;
  /** Tells of each name in the directory that comes, goes or is made anew; null can be any. Returns how to stop that. */
  watch(directory: string, onChange: (name: string | null) => void, onLost: (error: Error) => void): () => void;
}

const systemTree: DeviceTree = {
  stat: (path) => statSync(path, { throwIfNoEntry: false, bigint: true }), // at once, as names in /dev are in memory
  watch: (directory, onChange, onLost) => {
    const watcher = watch(directory, { persistent: false }, (_, name) => onChange(name)).on('error', onLost);
    return () => watcher.close();
  },
};

/** One of those that devices have their names in. */
interface Directory {
  /** Another directory by the same name is not the one that is watched. */
  readonly inode: bigint;
  readonly stopWatching: () => void;
  /** By path. */
  readonly numbers: Map<string, DeviceNumber>;
}

const none: DeviceNumber = { major: 0, minor: 0 };

/** What the kernel told before somebody asked us may lie unread; between two turns of the event loop it is read. */
async function whatWasTold(): Promise<void> {
  await nextTurn();
  await nextTurn();
}

/**
 * Device numbers by path. A device that comes, goes or gets another number has its name made anew, and the kernel tells
 * of that: a list of hundreds of volumes looks up those few that changed since the last one.
 */
export class DeviceNumbers {
  readonly #log: Log;
  readonly #tree: DeviceTree;
  readonly #directories = new Map<string, Directory>();
  #toldOfLoss = false;

  constructor(log: Log, tree: DeviceTree = systemTree) {
    this.#log = log;
    this.#tree = tree;
  }

  /** In the order of the paths; zeros for one that has no device now. */
  async of(devicePaths: readonly string[]): Promise<readonly DeviceNumber[]> {
    await whatWasTold();
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

  /** What cannot be watched is not remembered. */
  #watch(path: string, inode: bigint): Directory['numbers'] {
    const numbers: Directory['numbers'] = new Map();
    const onChange = (name: string | null) => {
      if (name === null) numbers.clear();
      else numbers.delete(join(path, name));
    };
    try {
      const stopWatching = this.#tree.watch(path, onChange, (error) => this.#lose(path, error));
      this.#directories.set(path, { inode, stopWatching, numbers });
      this.#toldOfLoss = false;
    } catch (error) {
      this.#lose(path, error);
    }
    return numbers;
  }

  #lose(path: string, error: unknown): void {
    this.#forget(path);
    if (this.#toldOfLoss) return; // the next list tries again
    this.#toldOfLoss = true;
    this.#log.warn({ err: error }, `lists of volumes take longer, as ${path} cannot be watched: ${messageOf(error)}`);
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
