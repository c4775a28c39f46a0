import { isDeepStrictEqual } from 'node:util';
import { type LogicalVolume, type StoredLogicalVolume, volumeIdOf } from '../../api/logical-volume.ts';
import { ioLimitNames } from '../../api/names.ts';
import type { Listeners } from '../../base/listeners.ts';
import type { Log } from '../../base/log.ts';
import type { Work, WorkQueue } from '../../base/work.ts';
import { type IoLimits, ioLimitsIn } from '../../csi/io-limits.ts';
import { deviceInUse } from '../../engine/luks-device.ts';
import type { VolumeId } from '../../engine/pool.ts';
import { type Pools, poolHolding } from '../../engine/pools.ts';
import type { Informer } from '../../kube/informer.ts';
import { PodIoLimits } from './io-limits.ts';

interface Collaborators {
  /** Only the LogicalVolumes of this node. */
  readonly volumes: Pick<Informer<LogicalVolume>, 'list' | 'onChange'>;
  readonly pools: Pick<Pools, 'all'>;
  /** Reports each volume that was just published. The pod does not wait for its limits. */
  readonly published: Pick<Listeners<VolumeId>, 'add'>;
  readonly kubeletDir: string;
  readonly cgroupRoot: string;
  readonly log: Log;
}

/** Applies the limits of the LogicalVolumes to pods: when a volume is published, and when its limits change. */
export function volumeLimits({ volumes, pools, published, ...rest }: Collaborators): Work {
  const limits = new PodIoLimits({
    ...rest,
    limitsOf: (volumeId) => limitsOf(volumes.list().find((volume) => volumeIdOf(volume) === volumeId)),
    deviceOf: (volumeId) => {
      const volume = poolHolding(pools, volumeId)?.get(volumeId);
      return volume && deviceInUse(volume);
    },
  });
  const watch = (queue: WorkQueue) => [
    published.add((volumeId) => queue.add(volumeId)),
    volumes.onChange(({ kind, object, previous }) => {
      if (kind === 'deleted') return;
      if (!previous || !isDeepStrictEqual(annotated(object), annotated(previous))) queue.add(volumeIdOf(object));
    }),
  ];
  return { name: 'io-limits', watch, reconcile: (volumeId) => limits.apply(volumeId), concurrency: 1 };
}

function limitsOf(volume: StoredLogicalVolume | undefined): IoLimits {
  return ioLimitsIn(volume?.metadata.annotations ?? {}, 'the annotations of the LogicalVolume');
}

function annotated({ metadata }: StoredLogicalVolume): readonly (string | undefined)[] {
  return Object.values(ioLimitNames).map((name) => metadata.annotations?.[name]);
}
