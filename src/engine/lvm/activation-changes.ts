import { readdir } from 'node:fs/promises';
import type { LogicalVolume } from './report.ts';

/** Lists the names of the volumes of a group that have a device now. */
export type DeviceNames = () => Promise<readonly string[]>;

/** LVM or udev links the device of each active volume in a directory of the group. */
export async function deviceNamesIn(directory: string): Promise<readonly string[]> {
  try {
    return await readdir(directory);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []; // it is removed with the last of them
    throw error;
  }
}

/** Detects volumes that others activated or deactivated, which leaves no trace in LVM metadata. */
export class ActivationChanges {
  readonly #deviceNames: DeviceNames;
  #withDevice: ReadonlySet<string> = new Set();
  #confirmed = '';

  constructor(deviceNames: DeviceNames) {
    this.#deviceNames = deviceNames;
  }

  /** Whether devices differ from memory in a way that LVM was not queried about yet. */
  async areNew(volumes: readonly LogicalVolume[]): Promise<boolean> {
    this.#withDevice = new Set(await this.#deviceNames());
    const differing = this.#differing(volumes);
    if (differing === '') this.#confirmed = '';
    return differing !== this.#confirmed;
  }

  /** LVM was queried: differences that remain are not new. */
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
