import type { TestContext } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { type LogicalVolume, logicalVolumes } from '../../api/logical-volume.ts';
import { systemClock } from '../../base/clock.ts';
import { ManualClock } from '../../base/testing/manual-clock.ts';
import { silentLog } from '../../base/testing/silent-log.ts';
import { Workers } from '../../base/work.ts';
import { Pools } from '../../engine/pools.ts';
import { InMemoryPool } from '../../engine/testing/in-memory-pool.ts';
import { Informer } from '../../kube/informer.ts';
import { InMemoryApi } from '../../kube/testing/in-memory-api.ts';
import { volumeWork } from '../reconcile/logical-volume-reconciler.ts';

export const never = new AbortController().signal;
export const requested: LogicalVolume = {
  metadata: {
    name: 'pvc-1',
    finalizers: ['topolvm.io/logicalvolume'],
    annotations: { 'moorage.dev/claim': 'shop/db' },
  },
  spec: { name: 'pvc-1', nodeName: 'a', size: '1Ki', deviceClass: 'ssd' },
};

const { deviceClass: _, ...classless } = requested.spec;
/** The same in the node's default class. */
export const byDefault = classless;

/** For tests: a node with two pools, `ssd` the default, that reconciles as the agent does. */
export function reconcilingNode(t: TestContext) {
  const api = new InMemoryApi<LogicalVolume>();
  const clock = new ManualClock();
  const ssd = new InMemoryPool('ssd', 4096n);
  const hdd = new InMemoryPool('hdd', 4096n);
  const volumes = new Informer({ client: api.client, resource: logicalVolumes, clock: systemClock, log: silentLog });
  const pools = new Pools([ssd, hdd], 'ssd');
  const work = volumeWork({ client: api.client, volumes, pools, log: silentLog });
  const workers = new Workers([work], { clock, log: silentLog, random: () => 0 });
  workers.start();
  volumes.start();
  t.after(async () => {
    await workers.stop(0);
    await volumes.stop();
  });
  const answered = (name = 'pvc-1') => volumes.until(name, (volume) => volume?.status !== undefined, never);
  const gone = (name = 'pvc-1') => volumes.until(name, (volume) => volume === undefined, never);
  return { api, clock, ssd, hdd, pools, volumes, answered, gone };
}

export class InjectedError extends Error {
  override readonly name: string;
  constructor(name: string) {
    super(`there is ${name}`);
    this.name = name;
  }
}

/** Lets all pending work run that needs no timer. */
export async function settled(): Promise<void> {
  for (let i = 0; i < 20; i++) await setImmediate();
}
