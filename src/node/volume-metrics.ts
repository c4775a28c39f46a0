import { statfs } from 'node:fs/promises';
import { claimName, metrics } from '../api/names.ts';
import type { Clock } from '../base/clock.ts';
import { blockDeviceAt } from '../base/device-number.ts';
import type { Volume } from '../engine/pool.ts';
import type { Pools } from '../engine/pools.ts';
import { gauge, type Metric, type Sample } from '../metrics/metric.ts';
import { mountedDevices } from '../volumes/mounted-devices.ts';

interface Collaborators {
  readonly nodeName: string;
  readonly pools: Pick<Pools, 'all'>;
  readonly kubeletDir: string;
  readonly clock: Clock;
}

const labelNames = ['node', 'device_class', 'volume', 'claim'] as const;
type Label = (typeof labelNames)[number];

const answerWithinMs = 1000;
/** Each holds a thread that all file work of the process shares; there are four. */
const unansweredAtMost = 2;

/** How large each volume is and how full those that are mounted are, read at the moment somebody asks. */
export function volumeMetrics({ nodeName, pools, kubeletDir, clock }: Collaborators): readonly Metric[] {
  const usage = new FilesystemUsage(clock);
  const volumes = () =>
    pools
      .all()
      .filter(({ name }) => name !== '') // what lvmd elsewhere calls its default is there by its own name too
      .flatMap((pool) => pool.list().map((volume) => ({ volume, labels: labelsOf(nodeName, pool.name, volume) })));
  return [
    gauge({
      name: metrics.volumeSizeBytes,
      help: 'Bytes of each volume.',
      labelNames,
      read: () => volumes().map(({ volume, labels }) => ({ labels, value: Number(volume.sizeBytes) })),
    }),
    gauge({
      name: metrics.volumeUsedBytes,
      help: 'Bytes that the filesystem of each mounted volume has in use.',
      labelNames,
      async read() {
        const targets = await targetsByDevice(kubeletDir);
        const used: Sample<Label>[] = [];
        for (const { volume, labels } of volumes()) {
          const target = targets.get((await blockDeviceAt(volume.devicePath)) ?? '');
          const value = target === undefined ? undefined : await usage.usedBytes(target);
          if (value !== undefined) used.push({ labels, value });
        }
        return used;
      },
    }),
  ];
}

async function targetsByDevice(kubeletDir: string): Promise<ReadonlyMap<string, string>> {
  const mounted = await mountedDevices(kubeletDir);
  return new Map(mounted.filter(({ isBlock }) => !isBlock).map(({ device, target }) => [device, target]));
}

function labelsOf(node: string, deviceClass: string, { id, tags }: Volume): Readonly<Record<Label, string>> {
  const prefix = `${claimName}=`;
  const claim = tags.find((tag) => tag.startsWith(prefix))?.slice(prefix.length) ?? '';
  return { node, device_class: deviceClass, volume: id, claim };
}

/** A filesystem on a disk that hangs makes nobody wait for long, and is not asked again before it has answered. */
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
      .catch(() => undefined) // unmounted just now
      .finally(() => this.#asked.delete(target));
    const { promise: late, resolve } = Promise.withResolvers<undefined>();
    const timer = this.#clock.setTimer(() => resolve(undefined), answerWithinMs);
    const bytes = await Promise.race([answer, late]);
    timer.cancel();
    return bytes;
  }
}
