import type { Clock, Timer } from '../../base/clock.ts';
import { messageOf } from '../../base/errors.ts';
import type { Command, Run } from '../../base/exec.ts';
import type { Log } from '../../base/log.ts';
import type { DeviceClass } from '../config/device-classes.ts';
import { createdTag } from '../tags.ts';
import { ownerArguments, parseOwners, type VolumeOwner } from './report.ts';

/** Nobody waits for this, and a node that starts has other things to do. */
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
 * Tells in the log of volumes that Moorage made and that are of no device class now: their class has left the
 * configuration, perhaps before anybody else learned of them. They are told of, never removed.
 */
export class UnservedVolumes {
  readonly #options: UnservedVolumesOptions;
  readonly #stopped = new AbortController();
  #timer: Timer | undefined;

  constructor(options: UnservedVolumesOptions) {
    this.#options = options;
  }

  /** The configuration is another one now. */
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
    if (deviceClasses().every(({ type }) => type === 'file')) return; // this node may have no LVM at all
    try {
      const { signal } = this.#stopped;
      const { stdout } = await run([...command, ...ownerArguments], { timeoutMs, env, signal });
      const volumes = unserved(parseOwners(stdout), deviceClasses());
      if (volumes.length === 0) return;
      log.warn(
        { volumes },
        `these volumes were made by Moorage and are of no device class: ${volumes.join(', ')}; give them one, or remove what nobody needs with lvremove`,
      );
    } catch (error) {
      if (this.#stopped.signal.aborted) return;
      log.warn({ err: error }, `cannot look for volumes that are of no device class: ${messageOf(error)}`);
    }
  }
}

/** `group/volume` of each volume that has our mark and no class. */
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
