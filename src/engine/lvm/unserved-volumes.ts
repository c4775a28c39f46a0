import type { Clock, Timer } from '../../base/clock.ts';
import { messageOf } from '../../base/errors.ts';
import type { Command, Run } from '../../base/exec.ts';
import type { Log } from '../../base/log.ts';
import type { DeviceClass } from '../config/device-classes.ts';
import { createdTag } from '../names-and-tags.ts';
import { ownerArguments, parseOwners, type VolumeOwner } from './report.ts';

/** Nobody waits for this, and a starting node has more urgent work. */
const lookAfterMs = 60_000;
const timeoutMs = 60_000;

export interface UnservedVolumesOptions {
  readonly command: Command;
  readonly run: Run;
  readonly env: NodeJS.ProcessEnv;
  readonly deviceClasses: () => readonly DeviceClass[];
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * Logs volumes that Moorage created and that belong to no device class now, because their class was removed from the
 * configuration. They are never removed.
 */
export class UnservedVolumes {
  readonly #options: UnservedVolumesOptions;
  readonly #stopped = new AbortController();
  #timer: Timer | undefined;

  constructor(options: UnservedVolumesOptions) {
    this.#options = options;
  }

  /** Call this after each change of the configuration. */
  lookLater(): void {
    this.#timer?.cancel();
    if (this.#stopped.signal.aborted) return;
    this.#timer = this.#options.clock.setTimer(() => void this.#look(), lookAfterMs);
  }

  stop(): void {
    this.#timer?.cancel();
    this.#stopped.abort();
  }

  async #look(): Promise<void> {
    const { command, run, env, deviceClasses, log } = this.#options;
    if (deviceClasses().every(({ type }) => type === 'file')) return; // this node may not have LVM
    try {
      const { signal } = this.#stopped;
      const { stdout } = await run([...command, ...ownerArguments], { timeoutMs, env, signal });
      const volumes = unserved(parseOwners(stdout), deviceClasses());
      if (volumes.length === 0) return;
      log.warn(
        { volumes },
        `volumes created by Moorage belong to no device class: ${volumes.join(', ')}; configure one, or remove those no longer needed with lvremove`,
      );
    } catch (error) {
      if (this.#stopped.signal.aborted) return;
      log.warn({ err: error }, `cannot look for volumes without a device class: ${messageOf(error)}`);
    }
  }
}

/** Returns `group/volume` of each volume with our tag and no class. */
export function unserved(volumes: readonly VolumeOwner[], deviceClasses: readonly DeviceClass[]): string[] {
  const isServed = ({ group, pool }: VolumeOwner) =>
    deviceClasses.some((deviceClass) => {
      if (deviceClass.type === 'file' || deviceClass.volumeGroup !== group) return false;
      return pool === (deviceClass.type === 'thin' ? deviceClass.thinPool.name : undefined);
    });
  return volumes
    .filter((volume) => volume.tags.includes(createdTag) && !isServed(volume))
    .map(({ group, name }) => `${group}/${name}`);
}
