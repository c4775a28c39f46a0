import { isDeepStrictEqual } from 'node:util';
import type { Clock, Timer } from '../base/clock.ts';
import { messageOf } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import type { DeviceClass } from './config/device-classes.ts';
import { isMarked } from './names-and-tags.ts';
import type { PlacedVolume } from './pool.ts';
import type { Pools } from './pools.ts';

/** Nobody waits for this, and a starting node has more urgent work. */
const lookAfterMs = 60_000;
/** As long as there are some: nobody reports their removal. */
const lookAgainMs = 10 * 60_000;

export interface UnservedVolumesOptions {
  /** Lists the logical volumes of this node, whether or not a class has them. */
  readonly allVolumes: (signal: AbortSignal) => Promise<readonly PlacedVolume[]>;
  readonly deviceClasses: () => readonly DeviceClass[];
  readonly pools: Pick<Pools, 'unserved' | 'foundUnserved'>;
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * Finds logical volumes of Moorage that belong to no device class now, because their class was removed from the
 * configuration. They are reported and never changed.
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
    const { pools, deviceClasses } = this.#options;
    pools.foundUnserved(unserved(pools.unserved(), deviceClasses())); // a class may have been added again
    this.#lookIn(lookAfterMs);
  }

  stop(): void {
    this.#timer?.cancel();
    this.#stopped.abort();
  }

  #lookIn(ms: number): void {
    this.#timer?.cancel();
    if (this.#stopped.signal.aborted) return;
    this.#timer = this.#options.clock.setTimer(() => void this.#look(), ms);
  }

  async #look(): Promise<void> {
    const { allVolumes, deviceClasses, pools, log } = this.#options;
    const { signal } = this.#stopped;
    try {
      this.#report(unserved(await allVolumes(signal), deviceClasses()));
    } catch (error) {
      if (signal.aborted) return;
      log.warn({ err: error }, `cannot look for volumes without a device class: ${messageOf(error)}`);
    }
    if (pools.unserved().length > 0) this.#lookIn(lookAgainMs);
  }

  #report(volumes: readonly PlacedVolume[]): void {
    const { pools, log } = this.#options;
    const isNew = !isDeepStrictEqual(volumes, pools.unserved());
    pools.foundUnserved(volumes);
    if (!isNew || volumes.length === 0) return;
    const names = volumes.map(({ volumeGroup, id }) => `${volumeGroup}/${id}`);
    log.warn(
      { volumes: names },
      `volumes created by Moorage belong to no device class: ${names.join(', ')}; add their class to the configuration ` +
        'again; kubectl moorage orphans then shows what to do with them',
    );
  }
}

/** The volumes with our marks and no class. */
export function unserved(
  volumes: readonly PlacedVolume[],
  deviceClasses: readonly DeviceClass[],
): readonly PlacedVolume[] {
  return volumes.filter((volume) => isMarked(volume) && !deviceClasses.some((each) => covers(each, volume)));
}

function covers(deviceClass: DeviceClass, { volumeGroup, thinPool }: PlacedVolume): boolean {
  if (deviceClass.type === 'file' || deviceClass.volumeGroup !== volumeGroup) return false;
  return thinPool === (deviceClass.type === 'thin' ? deviceClass.thinPool.name : undefined);
}
