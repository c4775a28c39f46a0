import { readdir } from 'node:fs/promises';
import type { LogicalVolume } from './report.ts';

/** The names of a group's volumes that have a device now. */
export type DeviceNames = () => Promise<readonly string[]>;

/** LVM, or udev for it, gives the device of each active volume a name in a directory of the group's own. */
export async function deviceNamesIn(directory: string): Promise<readonly string[]> {
  try {
    return await readdir(directory);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []; // it goes with the last of them
    throw error;
  }
}

/** Notices volumes that others have activated or deactivated, which leaves no trace in LVM's metadata. */
export class ActivationChanges {
  readonly #deviceNames: DeviceNames;
  #withDevice: ReadonlySet<string> = new Set();
  #confirmed = '';

  constructor(deviceNames: DeviceNames) {
    this.#deviceNames = deviceNames;
  }

  /** Whether devices differ from what is known of the volumes, and LVM has not been asked about that. */
  async areNew(volumes: readonly LogicalVolume[]): Promise<boolean> {
    this.#withDevice = new Set(await this.#deviceNames());
    const differing = this.#differing(volumes);
    if (differing === '') this.#confirmed = '';
    return differing !== this.#confirmed;
  }

  /** LVM was asked: where devices still differ from what it says, that is no news. */
  confirm(volumes: readonly LogicalVolume[]): void {
    this.#confirmed = this.#differing(volumes);
  }

  #differing(volumes: readonly LogicalVolume[]): string {
    return volumes
      .filter(({ name, path, active }) => path !== '' && active !== this.#withDevice.has(name))
      .map(({ name }) => name)
      .join(' ');
  }
}
