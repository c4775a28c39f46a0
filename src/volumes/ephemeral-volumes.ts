import { access } from 'node:fs/promises';
import { join } from 'node:path';
import { ephemeralSizeAttributes, ephemeralTag, parameters, podTag } from '../api/names.ts';
import { MoorageError, messageOf } from '../base/errors.ts';
import { exists } from '../base/exists.ts';
import type { Log } from '../base/log.ts';
import { formatBytes } from '../base/quantity.ts';
import type { EphemeralVolume } from '../csi/volume-context.ts';
import type { Pool, Volume, VolumeId } from '../engine/pool.ts';
import type { Pools } from '../engine/pools.ts';
import { poolHolding } from './pool-holding.ts';

/**
 * What pods may request inline. Whoever may create pods may request these volumes, no administrator's StorageClass stands
 * between, and ResourceQuota does not count them.
 */
export interface InlineLimits {
  readonly enabled: boolean;
  /** Allowed besides the default one. */
  readonly deviceClasses: readonly string[];
  /** Of one volume. */
  readonly maxSizeBytes: bigint;
}

interface Collaborators {
  readonly pools: Pick<Pools, 'all' | 'get' | 'default' | 'onChange'>;
  /** Undefined where only an administrator can request volumes. */
  readonly limits?: InlineLimits | undefined;
  readonly log: Log;
}

/**
 * Inline ephemeral volumes, which no object in the cluster stands for: each is made for one pod when it is published,
 * and removed when it is unpublished. The tag on the disk alone tells them from volumes of claims.
 */
export class EphemeralVolumes {
  readonly #pools: Collaborators['pools'];
  readonly #limits: InlineLimits | undefined;
  readonly #log: Log;

  constructor({ pools, limits, log }: Collaborators) {
    this.#pools = pools;
    this.#limits = limits;
    this.#log = log;
  }

  /**
   * Whether it was made now: false if it is there already. Limits are for new volumes: a pod that has its volume keeps it, also
   * when its node restarts.
   */
  async make(id: VolumeId, wanted: EphemeralVolume, signal: AbortSignal): Promise<boolean> {
    const existing = poolHolding(this.#pools, id)?.get(id);
    if (existing && !isEphemeral(existing)) throw new NotEphemeral(id);
    if (existing) return false;
    const { sizeBytes, deviceClass, podUid } = wanted;
    const pool = this.#pools.get(deviceClass); // first, as a class that cannot be served now may have the volume
    this.#mustBeAllowed(wanted);
    const tags = [ephemeralTag, ...(podUid ? [`${podTag}=${podUid}`] : [])];
    await pool.create({ id, sizeBytes, tags }, signal);
    this.#log.info({ volume: id, pod: podUid, sizeBytes: String(sizeBytes) }, 'ephemeral volume made');
    return true;
  }

  #mustBeAllowed({ sizeBytes, deviceClass, forClassesOnly }: EphemeralVolume): void {
    if (forClassesOnly.length > 0) {
      throw new NotAllowedInline(
        `the pod's volume attributes hold ${forClassesOnly.join(', ')}, which only a StorageClass may set; leave them out, or use a generic ephemeral volume of such a class`,
      );
    }
    if (!this.#limits) return;
    const { enabled, deviceClasses, maxSizeBytes } = this.#limits;
    if (!enabled) {
      throw new NotAllowedInline(
        'inline volumes are switched off; use a generic ephemeral volume, or set node.inlineVolumes.enabled (--inline-volumes)',
      );
    }
    const isDefault = deviceClass === '' || deviceClass === this.#pools.default?.name;
    if (!isDefault && !deviceClasses.includes(deviceClass)) {
      const [allowed, remedy] =
        deviceClasses.length === 0
          ? ['the default class alone is', 'leave it out']
          : [`the default class, ${deviceClasses.join(', ')} are`, 'name one of them'];
      throw new NotAllowedInline(
        `device class ${JSON.stringify(deviceClass)} is requested for an inline volume (${parameters.deviceClass}), and ${allowed} allowed; ${remedy}, use a generic ephemeral volume, or add it to node.inlineVolumes.deviceClasses (--inline-device-classes)`,
      );
    }
    if (sizeBytes > maxSizeBytes) {
      throw new NotAllowedInline(
        `an inline volume of ${formatBytes(sizeBytes)} is requested (${ephemeralSizeAttributes[0]}), and ${formatBytes(maxSizeBytes)} is the limit; request less, use a generic ephemeral volume, or raise node.inlineVolumes.maxSize (--inline-max-size)`,
      );
    }
  }

  /** If, and only if, the volume carries the tag. */
  async removeIfEphemeral(id: VolumeId, signal: AbortSignal): Promise<void> {
    const pool = poolHolding(this.#pools, id);
    const volume = pool?.get(id);
    if (!pool || !volume || !isEphemeral(volume)) return;
    await pool.remove(id, signal);
    this.#log.info({ volume: id }, 'ephemeral volume removed');
  }

  /**
   * Removes what a crash has left of pods that are gone. As long as a pod has its directory, the kubelet will still
   * unpublish its volumes; a volume that is mounted, the pool itself refuses to remove. What cannot be removed is
   * told in the log and stays.
   */
  async removeLeftovers(podsDirectory: string, signal: AbortSignal, pools = this.#pools.all()): Promise<void> {
    const left = pools.flatMap((pool) =>
      pool
        .list()
        .filter(isEphemeral)
        .map((volume) => ({ pool, volume })),
    );
    if (!(await this.#canTellPods(podsDirectory))) return;
    for (const { pool, volume } of left) {
      try {
        await this.#removeLeftover(pool, volume, podsDirectory, signal);
      } catch (error) {
        this.#log.warn({ volume: volume.id }, `an ephemeral volume that was left stays: ${messageOf(error)}`);
      }
    }
  }

  /** The same for each pool as soon as it is served, which may be long after the start. */
  removeLeftoversOnceServed(podsDirectory: string, signal: AbortSignal): { stop(): Promise<void> } {
    const seen = new WeakSet<Pool>();
    const searches: Promise<void>[] = [];
    const search = () => {
      const unseen = this.#pools.all().filter((pool) => !seen.has(pool));
      for (const pool of unseen) seen.add(pool);
      if (unseen.length > 0) searches.push(this.removeLeftovers(podsDirectory, signal, unseen));
    };
    const unsubscribe = this.#pools.onChange(search);
    search();
    return {
      async stop() {
        unsubscribe();
        await Promise.all(searches);
      },
    };
  }

  /** Where their directories are not to be seen, no pod can be said to be gone. */
  async #canTellPods(podsDirectory: string): Promise<boolean> {
    try {
      await access(podsDirectory);
      return true;
    } catch (error) {
      this.#log.warn(`ephemeral volumes that pods have left are not looked for: ${messageOf(error)}`);
      return false;
    }
  }

  async #removeLeftover(pool: Pool, { id, tags }: Volume, podsDirectory: string, signal: AbortSignal): Promise<void> {
    const podUid = tags.find((tag) => tag.startsWith(`${podTag}=`))?.slice(podTag.length + 1);
    if (podUid === undefined) throw new PodUnknown(id);
    if (await exists(join(podsDirectory, podUid))) return;
    await pool.remove(id, signal);
    this.#log.info({ volume: id, pod: podUid }, 'ephemeral volume of a pod that is gone removed');
  }
}

function isEphemeral({ tags }: Volume): boolean {
  return tags.includes(ephemeralTag);
}

/** It may hold somebody's data, and would be removed with the pod. */
export class NotEphemeral extends MoorageError {
  readonly code = 'AlreadyExists';

  constructor(id: VolumeId) {
    super(`volume ${id} exists and is not ephemeral, so no pod may have it inline; use the claim that it belongs to`);
  }
}

/** The kubelet shows its message as an Event of the pod, so it names the value of the chart and the flag behind it. */
export class NotAllowedInline extends MoorageError {
  readonly code = 'PermissionDenied';
}

class PodUnknown extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(id: VolumeId) {
    super(`it does not tell which pod it was made for; if none needs it, remove it with moorage volume rm ${id}`);
  }
}
