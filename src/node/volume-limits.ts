import { isDeepStrictEqual } from 'node:util';
import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import { type IoLimits, ioLimitsIn } from '../csi/io-limits.ts';
import type { Informer } from '../kube/informer.ts';
import { type LogicalVolume, type StoredLogicalVolume, volumeIdOf } from '../logical-volume/logical-volume.ts';
import { ioLimitNames } from '../names.ts';
import type { Pools } from '../storage/pools.ts';
import { PodIoLimits } from './io-limits.ts';
import { poolHolding } from './pool-holding.ts';

interface Collaborators {
  /** The LogicalVolumes of this node, and no others. */
  readonly volumes: Pick<Informer<LogicalVolume>, 'list' | 'onChange'>;
  readonly pools: Pick<Pools, 'all'>;
  readonly kubeletDir: string;
  readonly cgroupRoot: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly random: () => number;
}

/** Holds pods to the limits that the LogicalVolumes carry: when a pod gets its volume, and when the limits change. */
export function volumeLimits({ volumes, pools, ...its }: Collaborators): PodIoLimits {
  const limits = new PodIoLimits({
    ...its,
    limitsOf: (volumeId) => limitsOf(volumes.list().find((volume) => volumeIdOf(volume) === volumeId)),
    deviceOf: (volumeId) => poolHolding(pools, volumeId)?.get(volumeId)?.devicePath,
  });
  volumes.onChange(({ kind, object, previous }) => {
    if (kind === 'deleted') return;
    if (!previous || !isDeepStrictEqual(annotated(object), annotated(previous))) limits.changed(volumeIdOf(object));
  });
  return limits;
}

function limitsOf(volume: StoredLogicalVolume | undefined): IoLimits {
  return ioLimitsIn(volume?.metadata.annotations ?? {}, 'the annotations of the LogicalVolume');
}

function annotated({ metadata }: StoredLogicalVolume): readonly (string | undefined)[] {
  return Object.values(ioLimitNames).map((name) => metadata.annotations?.[name]);
}
