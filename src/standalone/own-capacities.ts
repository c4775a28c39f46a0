import type { NodeCapacities } from '../csi/volume-store.ts';
import type { Pools } from '../storage/pools.ts';

/** What this machine, the only one there is, has to offer. */
export class OwnCapacities implements NodeCapacities {
  readonly #nodeName: string;
  readonly #pools: Pick<Pools, 'all' | 'default'>;

  constructor(nodeName: string, pools: Pick<Pools, 'all' | 'default'>) {
    this.#nodeName = nodeName;
    this.#pools = pools;
  }

  freeBytes(deviceClass: string): ReadonlyMap<string, bigint> {
    const pool = deviceClass ? this.#pools.all().find(({ name }) => name === deviceClass) : this.#pools.default;
    return new Map(pool ? [[this.#nodeName, pool.capacity().freeBytes]] : []);
  }

  /** Limits are set on the cgroup of a pod, and there are no pods. */
  limitingIo(): ReadonlySet<string> {
    return new Set();
  }

  mayLimitIo(): boolean {
    return false;
  }
}
