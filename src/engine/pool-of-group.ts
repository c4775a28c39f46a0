import { MoorageError, messageOf } from '../base/errors.ts';
import type { DeviceClass } from './config/device-classes.ts';
import type { Pool } from './pool.ts';
import type { Pools } from './pools.ts';

/**
 * The pool with the thick volumes of a volume group, whether or not a configured class serves it. `deviceClasses` are those
 * whose configuration is known, as an unavailable class has no pool that could tell its group.
 */
export function poolOfGroup(
  pools: Pick<Pools, 'all' | 'unavailable'>,
  deviceClasses: readonly DeviceClass[],
  volumeGroup: string,
): Pool {
  const found = pools.all().find((pool) => {
    const details = pool.details();
    return details?.type === 'thick' && details.volumeGroup === volumeGroup;
  });
  if (found) return found;
  const unavailable = pools.unavailable();
  const deviceClass = deviceClasses.find((each) => each.type === 'thick' && each.volumeGroup === volumeGroup);
  if (!deviceClass || !unavailable.has(deviceClass.name)) throw new VolumeGroupNotServed(volumeGroup, unavailable);
  throw new VolumeGroupUnavailable(volumeGroup, unavailable.get(deviceClass.name));
}

/** It is served as soon as it exists. */
export class VolumeGroupUnavailable extends MoorageError {
  readonly code = 'Unavailable';

  constructor(volumeGroup: string, cause: unknown) {
    super(`volume group ${volumeGroup} cannot be served now: ${messageOf(cause)}`, { cause });
  }
}

/** The configuration is that of an lvmd, which alone decides what it serves. */
export class VolumeGroupNotServed extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(volumeGroup: string, unavailable: ReadonlyMap<string, unknown>) {
    const others = [...unavailable].map(
      ([name, error]) => `; device class ${name} is unavailable: ${messageOf(error)}`,
    );
    super(
      `no thick device class is on volume group ${volumeGroup}; add one to the configuration of the lvmd on this machine, ` +
        `or request a device class instead of the group${others.join('')}`,
    );
  }
}
