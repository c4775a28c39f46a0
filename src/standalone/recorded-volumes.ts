import { KeyedLock } from '../base/keyed-lock.ts';
import type { Pool, Volume } from '../engine/pool.ts';
import { DeviceClassUnavailable, type Pools } from '../engine/pools.ts';
import { isOurId, recordIn, type VolumeRecord } from './volume-record.ts';

/** A volume that a CSI call created. */
export interface RecordedVolume {
  readonly volume: Volume;
  readonly record: VolumeRecord;
  readonly pool: Pool;
}

type Kind = VolumeRecord['kind'];

/** The volumes on this machine's disks that CSI calls created. Other volumes are never listed or removed. */
export class RecordedVolumes {
  readonly #pools: Pick<Pools, 'all' | 'unavailable'>;
  readonly #lock = new KeyedLock();

  constructor(pools: Pick<Pools, 'all' | 'unavailable'>) {
    this.#pools = pools;
  }

  find(kind: Kind, id: string): RecordedVolume | undefined {
    return this.list(kind).find(({ volume }) => volume.id === id);
  }

  list(kind: Kind): readonly RecordedVolume[] {
    return this.#pools.all().flatMap((pool) =>
      pool.list().flatMap((volume) => {
        const record = recordIn(volume.tags);
        return record?.kind === kind ? [{ volume, record, pool }] : [];
      }),
    );
  }

  /** Of two concurrent calls for the same name, the second finds what the first created. */
  async alone<T>(id: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    return this.#lock.run(id, signal, work);
  }

  async remove(kind: Kind, id: string, signal: AbortSignal): Promise<void> {
    await this.alone(id, signal, async () => {
      const found = this.find(kind, id);
      if (found) await found.pool.remove(id, signal);
      else if (this.#isLeft(id)) for (const pool of this.#everyPool()) await pool.remove(id, signal);
    });
  }

  /** A missing volume may be in an unavailable pool, so it must not be reported as removed. */
  #everyPool(): readonly Pool[] {
    for (const [name, error] of this.#pools.unavailable()) throw new DeviceClassUnavailable(name, error);
    return this.#pools.all();
  }

  /** An unfinished volume, or one that is being erased, is in no list; only its pool knows it. */
  #isLeft(id: string): boolean {
    return isOurId(id) && this.#pools.all().every((pool) => pool.get(id) === undefined);
  }
}
