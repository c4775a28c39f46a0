import { MoorageError } from '../base/errors.ts';
import { heldByAnnotation } from '../names.ts';
import type { Pool, VolumeId } from '../storage/pool.ts';
import type { Pools } from '../storage/pools.ts';

/** The pool that has the volume. A volume's id is unique on its node, and its class may have been renamed since. */
export function poolHolding(pools: Pick<Pools, 'all'>, id: VolumeId): Pool | undefined {
  return pools.all().find((pool) => pool.get(id) !== undefined);
}

/** The pool that must remove the volume: it has it, or has begun to destroy its data. */
export function poolToRemoveFrom(pools: Pick<Pools, 'all'>, id: VolumeId): Pool | undefined {
  const isErasing = (pool: Pool) => pool.erasures().some((erasure) => erasure.id === id);
  return poolHolding(pools, id) ?? pools.all().find(isErasing);
}

/** A class may have left the configuration with the volume in it. */
export class HolderNotKnown extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(name: string, volumeId: VolumeId) {
    super(
      `no device class of this node has volume ${volumeId}, and which one had it is not known: put a class that left ` +
        `back into the configuration, or name the class with kubectl annotate logicalvolume ${name} ${heldByAnnotation}=<class>`,
    );
  }
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
