import { type BigIntStats, statSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Clock } from '../base/clock.ts';
import { type DeviceNumber, splitDeviceNumber } from '../storage/device-number.ts';

export type Stat = (path: string) => Pick<BigIntStats, 'mtimeNs' | 'rdev' | 'isBlockDevice'> | undefined;

/** Not asynchronous: names in /dev are in memory. */
const statNow: Stat = (path) => statSync(path, { throwIfNoEntry: false, bigint: true });

interface Directory {
  readonly changedNs: bigint;
  readonly numbers: Map<string, DeviceNumber>;
}

const none: DeviceNumber = { major: 0, minor: 0 };

/** Within the same tick of the kernel's clock, 10 ms at most, a directory can change again without its time changing. */
const settledAfterMs = 50;

/**
 * Device numbers by path. A device that comes, goes or gets another number has its name made anew, so as long as its
 * directory has not changed neither has its number: a list of hundreds of volumes asks for one time instead of hundreds.
 */
export class DeviceNumbers {
  readonly #clock: Clock;
  readonly #stat: Stat;
  readonly #directories = new Map<string, Directory>();

  constructor(clock: Clock, stat: Stat = statNow) {
    this.#clock = clock;
    this.#stat = stat;
  }

  /** In the order of the paths; zeros for one that has no device now. */
  of(devicePaths: readonly string[]): readonly DeviceNumber[] {
    const directories = new Map<string, Directory>();
    return devicePaths.map((devicePath) => {
      const path = dirname(devicePath);
      const directory = directories.get(path) ?? this.#directory(path);
      directories.set(path, directory);
      const number = directory.numbers.get(devicePath) ?? this.#read(devicePath);
      directory.numbers.set(devicePath, number);
      return number;
    });
  }

  #directory(path: string): Directory {
    const changedNs = this.#stat(path)?.mtimeNs ?? 0n;
    const known = this.#directories.get(path);
    if (known?.changedNs === changedNs) return known;
    const fresh = { changedNs, numbers: new Map() };
    const ageMs = this.#clock.now() - Number(changedNs / 1_000_000n);
    if (ageMs > settledAfterMs) this.#directories.set(path, fresh);
    else this.#directories.delete(path);
    return fresh;
  }

  #read(devicePath: string): DeviceNumber {
    const device = this.#stat(devicePath);
    return device?.isBlockDevice() ? splitDeviceNumber(device.rdev) : none;
  }
}
