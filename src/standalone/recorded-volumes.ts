import { KeyedLock } from '../base/keyed-lock.ts';
import type { Pool, Volume } from '../engine/pool.ts';
import { DeviceClassUnavailable, type Pools } from '../engine/pools.ts';
import { isIdOfOurs, recordIn, type VolumeRecord } from './volume-record.ts';

/** A volume that was made by a call of CSI. */
export interface RecordedVolume {
  readonly volume: Volume;
  readonly record: VolumeRecord;
  readonly pool: Pool;
}

type Kind = VolumeRecord['kind'];

/** The volumes on this machine's disks that CSI's calls have made. Whatever else is there is never seen, nor removed. */
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

  /** Two calls for the same name at once: the second finds what the first has made. */
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

  /** It may be in a pool that is away: then nobody can say that it is gone. */
  #everyPool(): readonly Pool[] {
    for (const [name, error] of this.#pools.unavailable()) throw new DeviceClassUnavailable(name, error);
    return this.#pools.all();
  }

  /** What a crash left half-made, or what is being erased, is in no list; only its pool knows of it. */
  #isLeft(id: string): boolean {
    return isIdOfOurs(id) && this.#pools.all().every((pool) => pool.get(id) === undefined);
  }
}
