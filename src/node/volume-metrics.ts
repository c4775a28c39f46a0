import { statfs } from 'node:fs/promises';
import { claimKey, metrics } from '../api/names.ts';
import type { Clock } from '../base/clock.ts';
import { blockDeviceAt } from '../base/device-number.ts';
import { deviceInUse } from '../engine/luks-device.ts';
import { tagValue } from '../engine/names-and-tags.ts';
import type { Volume } from '../engine/pool.ts';
import type { Pools } from '../engine/pools.ts';
import { gauge, type Metric, type Sample } from '../metrics/metric.ts';
import { mountedDevices } from '../volumes/mounted-devices.ts';

interface Collaborators {
  readonly nodeName: string;
  readonly pools: Pick<Pools, 'all'>;
  /** Where volumes are mounted. */
  readonly directories: readonly string[];
  readonly clock: Clock;
}

const labelNames = ['node', 'device_class', 'volume', 'claim'] as const;
type Label = (typeof labelNames)[number];

const answerWithinMs = 1000;
/** Each blocks one of the four threads for file operations of the process. */
const unansweredAtMost = 2;

/** The size of each volume and the usage of mounted ones, read at each scrape. */
export function volumeMetrics({ nodeName, pools, directories, clock }: Collaborators): readonly Metric[] {
  const usage = new FilesystemUsage(clock);
  const volumes = () =>
    pools
      .all()
      .filter(({ name }) => name !== '') // the default class of a remote lvmd is also there by its name
      .flatMap((pool) => pool.list().map((volume) => ({ volume, labels: labelsOf(nodeName, pool.name, volume) })));
  return [
    gauge({
      name: metrics.volumeSizeBytes,
      help: 'Size of each volume in bytes.',
      labelNames,
      read: () => volumes().map(({ volume, labels }) => ({ labels, value: Number(volume.sizeBytes) })),
    }),
    gauge({
      name: metrics.volumeUsedBytes,
      help: 'Bytes used in the filesystem of each mounted volume.',
      labelNames,
      async read() {
        const targets = await targetsByDevice(directories);
        const used: Sample<Label>[] = [];
        for (const { volume, labels } of volumes()) {
          const target = targets.get((await blockDeviceAt(deviceInUse(volume))) ?? '');
          const value = target === undefined ? undefined : await usage.usedBytes(target);
          if (value !== undefined) used.push({ labels, value });
        }
        return used;
      },
    }),
  ];
}

async function targetsByDevice(directories: readonly string[]): Promise<ReadonlyMap<string, string>> {
  const mounted = (await Promise.all(directories.map(mountedDevices))).flat();
  return new Map(mounted.filter(({ isBlock }) => !isBlock).map(({ device, target }) => [device, target]));
}

function labelsOf(node: string, deviceClass: string, { id, tags }: Volume): Readonly<Record<Label, string>> {
  const claim = tagValue(tags, claimKey) ?? '';
  return { node, device_class: deviceClass, volume: id, claim };
}

/** A hanging filesystem delays a scrape only briefly, and is not queried again before it has answered. */
class FilesystemUsage {
  readonly #clock: Clock;
  readonly #asked = new Set<string>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  async usedBytes(target: string): Promise<number | undefined> {
    if (this.#asked.has(target) || this.#asked.size >= unansweredAtMost) return undefined;
    this.#asked.add(target);
    const answer = statfs(target)
      .then(({ blocks, bfree, bsize }) => (blocks - bfree) * bsize)
      .catch(() => undefined) // just unmounted
      .finally(() => this.#asked.delete(target));
    const { promise: late, resolve } = Promise.withResolvers<undefined>();
    const timer = this.#clock.setTimer(() => resolve(undefined), answerWithinMs);
    const bytes = await Promise.race([answer, late]);
    timer.cancel();
    return bytes;
  }
}
