import { MoorageError } from '../base/errors.ts';
import type { Pool, VolumeId } from '../storage/pool.ts';
import type { Pools } from '../storage/pools.ts';

/** The pool that has the volume. A volume's id is unique on its node, and its class may have been renamed since. */
export function poolHolding(pools: Pick<Pools, 'all'>, id: VolumeId): Pool | undefined {
  return pools.all().find((pool) => pool.get(id) !== undefined);
}

export class VolumeNotHere extends MoorageError {
  readonly code = 'NotFound';

  constructor(volumeId: string) {
    super(
      `this node has no volume ${volumeId}; check with kubectl get logicalvolumes which node it is on, ` +
        'and that its device class is in the configuration of that node',
    );
  }
}
