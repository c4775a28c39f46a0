import { access } from 'node:fs/promises';
import { join } from 'node:path';
import { ephemeralSizeAttributes, ephemeralTag, parameters, podTag } from '../api/names.ts';
import { MoorageError, messageOf } from '../base/errors.ts';
import { exists } from '../base/exists.ts';
import type { Log } from '../base/log.ts';
import { formatBytes } from '../base/quantity.ts';
import type { EphemeralVolume } from '../csi/volume-use.ts';
import { tagValue } from '../engine/names-and-tags.ts';
import type { Pool, Volume, VolumeId } from '../engine/pool.ts';
import { type Pools, poolHolding } from '../engine/pools.ts';

/**
 * What pods may request inline. Anyone who may create pods can request these volumes: no administrator's StorageClass
 * limits them, and ResourceQuota does not count them.
 */
export interface InlineLimits {
  readonly enabled: boolean;
  /** Allowed in addition to the default class. */
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
 * Inline ephemeral volumes, which have no object in the cluster: each is created for one pod when it is published and
 * removed when it is unpublished. Only the tag on the disk distinguishes them from volumes of claims.
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
   * Returns whether it created the volume: false if it already exists. Limits apply to new volumes only: a pod keeps the
   * volume that it has, also across a restart of its node.
   */
  async create(id: VolumeId, wanted: EphemeralVolume, signal: AbortSignal): Promise<boolean> {
    const existing = poolHolding(this.#pools, id)?.get(id);
    if (existing && !isEphemeral(existing)) throw new NotEphemeral(id);
    if (existing) return false;
    const { sizeBytes, deviceClass, podUid } = wanted;
    const pool = this.#pools.get(deviceClass); // before the limits, as a class that cannot be served now may have the volume
    this.#mustBeAllowed(wanted);
    const tags = [ephemeralTag, ...(podUid ? [`${podTag}=${podUid}`] : [])];
    await pool.create({ id, sizeBytes, tags }, signal);
    this.#log.info({ volume: id, pod: podUid, sizeBytes: String(sizeBytes) }, 'ephemeral volume created');
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
        'inline volumes are disabled; use a generic ephemeral volume, or set node.inlineVolumes.enabled (--inline-volumes)',
      );
    }
    const isDefault = deviceClass === '' || deviceClass === this.#pools.default?.name;
    if (!isDefault && !deviceClasses.includes(deviceClass)) {
      const [allowed, remedy] =
        deviceClasses.length === 0
          ? ['only the default class is', 'leave it out']
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

  /** Removes the volume only if it has the tag. */
  async removeIfEphemeral(id: VolumeId, signal: AbortSignal): Promise<void> {
    const pool = poolHolding(this.#pools, id);
    const volume = pool?.get(id);
    if (!pool || !volume || !isEphemeral(volume)) return;
    await pool.remove(id, signal);
    this.#log.info({ volume: id }, 'ephemeral volume removed');
  }

  /**
   * Removes what a crash left behind of deleted pods. While a pod has its directory, the kubelet will still unpublish its
   * volumes. The pool refuses to remove a mounted volume. A volume that cannot be removed is logged and stays.
   */
  async removeLeftovers(podsDirectory: string, signal: AbortSignal, pools = this.#pools.all()): Promise<void> {
    const left = pools.flatMap((pool) =>
      pool
        .list()
        .filter(isEphemeral)
        .map((volume) => ({ pool, volume })),
    );
    if (!(await this.#canSeePods(podsDirectory))) return;
    for (const { pool, volume } of left) {
      try {
        await this.#removeLeftover(pool, volume, podsDirectory, signal);
      } catch (error) {
        this.#log.warn(
          { volume: volume.id },
          `cannot remove leftover ephemeral volume ${volume.id}: ${messageOf(error)}`,
        );
      }
    }
  }

  /** Does the same for each pool once it is served, which may be long after the start. */
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

  /** Without access to the pods' directories, no pod counts as deleted. */
  async #canSeePods(podsDirectory: string): Promise<boolean> {
    try {
      await access(podsDirectory);
      return true;
    } catch (error) {
      this.#log.warn(`cannot look for leftover ephemeral volumes: ${messageOf(error)}`);
      return false;
    }
  }

  async #removeLeftover(pool: Pool, { id, tags }: Volume, podsDirectory: string, signal: AbortSignal): Promise<void> {
    const podUid = tagValue(tags, podTag);
    if (podUid === undefined) throw new PodUnknown(id);
    if (await exists(join(podsDirectory, podUid))) return;
    await pool.remove(id, signal);
    this.#log.info({ volume: id, pod: podUid }, 'leftover ephemeral volume removed');
  }
}

function isEphemeral({ tags }: Volume): boolean {
  return tags.includes(ephemeralTag);
}

/** It may hold data, and would be removed with the pod. */
export class NotEphemeral extends MoorageError {
  readonly code = 'AlreadyExists';

  constructor(id: VolumeId) {
    super(`volume ${id} exists and is not ephemeral, so it cannot be used inline; use the claim that it belongs to`);
  }
}

/** The kubelet shows the message in an Event of the pod, so it names the chart value and its flag. */
export class NotAllowedInline extends MoorageError {
  readonly code = 'PermissionDenied';
}

class PodUnknown extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(id: VolumeId) {
    super(
      `it has no tag with its pod, so Moorage keeps it; kubectl moorage orphans shows what to do with volume ${id}`,
    );
  }
}
