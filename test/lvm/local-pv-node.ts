import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { systemClock } from '../../src/base/clock.ts';
import { type Run, run } from '../../src/base/exec.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import { Workers } from '../../src/base/work.ts';
import { noDeviceClasses } from '../../src/engine/config/device-classes-yaml.ts';
import type { Pool } from '../../src/engine/pool.ts';
import { poolOfGroup } from '../../src/engine/pool-of-group.ts';
import { StorageEngine } from '../../src/engine/storage-engine.ts';
import type { KubeClient } from '../../src/kube/client.ts';
import { type PersistentVolume, persistentVolumes } from '../../src/kube/resource.ts';
import { InMemoryApi } from '../../src/kube/testing/in-memory-api.ts';
import type { StaticVolumePools } from '../../src/node/local-pv/find-volume.ts';
import { type LocalPvOptions, localPvJob } from '../../src/node/local-pv/local-pv-job.ts';
import { mountPointOf } from '../../src/node/local-pv/volume-path.ts';
import { command, deviceName, disks, volumeGroup } from '../../worlds/lvm/inside.ts';
import { undoAfter } from '../../worlds/lvm/undo.ts';
import { signal, thinClass } from './lvm-pools.ts';

export const prefix = 'local-pv.k8s.portavita.net/';
type Annotations = Readonly<Record<string, string>>;

/** Counts the steps of an agent and ends it before or after one of them, as a kill would. */
export class Killer {
  #stepsLeft: number;
  isDone = false;

  constructor(stepsLeft = Number.POSITIVE_INFINITY) {
    this.#stepsLeft = stepsLeft;
  }

  async step<T>(work: () => Promise<T>): Promise<T> {
    this.#point();
    const result = await work();
    this.#point();
    return result;
  }

  #point(): void {
    this.isDone ||= this.#stepsLeft-- === 0;
    if (this.isDone) throw new Error('killed');
  }
}

/** A node with one volume group and a thin class in it, an API server in memory, and one agent at a time. */
export async function localPvNode(t: TestContext) {
  const vg = await volumeGroup(t, { disks: disks().slice(0, 1) });
  await command('lvcreate', '--yes', '--type', 'thin-pool', '--name', 'pool', '--size', '128m', vg);
  const mountBase = `/tmp/${deviceName('pv')}`;
  await mkdir(mountBase);
  undoAfter(t, async () => {
    const mounted = `grep -o -e '${mountBase}/[^ ]*' -e '${mountPointOf('')}[^ ]*' /proc/self/mountinfo`;
    await command('sh', '-c', `${mounted} | sort -r | xargs -r umount; rm -rf ${mountPointOf('')}*`);
    await command(
      'sh',
      '-c',
      'for luks in /dev/mapper/moorage-luks-*; do test ! -e $luks || cryptsetup close $luks; done',
    );
    await rm(mountBase, { recursive: true });
  });
  const config = { ...noDeviceClasses, lvmCommand: ['lvm'] as const, deviceClasses: [thinClass(vg)] };
  const collaborators = { stateDirectory: '/nowhere', env: process.env, clock: systemClock, log: silentLog };
  const engine = await StorageEngine.startWith(config, { ...collaborators, run }, signal);
  undoAfter(t, () => engine.stop());

  const api = new InMemoryApi<PersistentVolume>();
  const secrets = new Map<string, Readonly<Record<string, string>>>();
  const commands: string[] = [];
  let agent: AsyncDisposable | undefined;
  undoAfter(t, async () => agent?.[Symbol.asyncDispose]());

  /** Starts an agent. An earlier one has ended then. */
  const restart = async (killer = new Killer()) => {
    await agent?.[Symbol.asyncDispose]();
    const pools: StaticVolumePools = {
      pools: engine.pools,
      allPools: engine.allPools,
      serveGroups: (names, signal) => engine.serveGroups(names, signal),
      poolOfGroup: (name) => steppedPool(poolOfGroup(engine.allPools, engine.deviceClasses(), name), killer),
    };
    const stepped: Run = (words, options) => {
      commands.push(words[0]);
      return killer.step(() => run(words, options));
    };
    const options: LocalPvOptions = {
      ...{ mountBase, mounts: 'agent', defaultsName: '', namespace: 'moorage', releases: true, sanityChecks: false },
    };
    const client = steppedClient(api, secrets, killer);
    const job = localPvJob('a', options, { client, run: stepped, clock: systemClock, log: silentLog });
    const { work } = await job.begin(pools);
    const workers = new Workers(work, { clock: systemClock, log: silentLog, random: () => 0 });
    workers.start();
    for (const watch of Object.values(job.watches)) watch.start();
    agent = {
      async [Symbol.asyncDispose]() {
        agent = undefined;
        await workers.stop(0);
        for (const watch of Object.values(job.watches)) await watch.stop();
      },
    };
    return job.volumes;
  };
  let volumes = await restart();

  const pathOf = (name: string) => join(mountBase, name);
  return {
    ...{ vg, engine, api, secrets, commands, mountBase, pathOf },
    stop: async () => agent?.[Symbol.asyncDispose](),
    restart: async (killer?: Killer) => void (volumes = await restart(killer)),
    /** Creates a PersistentVolume as the controller hands it over. */
    create: (name: string, size: string, annotations: Annotations = {}, spec: PersistentVolume['spec'] = {}) =>
      api.create(persistentVolumes, {
        metadata: {
          name,
          finalizers: ['moorage.dev/local-pv'],
          annotations: { [`${prefix}node`]: 'a', [`${prefix}vg`]: vg, ...annotations },
        },
        spec: { local: { path: pathOf(name) }, capacity: { storage: size }, ...spec },
      }),
    change: (name: string, body: object) => api.patch(persistentVolumes, name, { type: 'merge', body }),
    annotationsOf: async (name: string): Promise<Annotations> =>
      (await api.get(persistentVolumes, name))?.metadata.annotations ?? {},
    delete: (name: string) => api.delete(persistentVolumes, name),
    /** Waits until the annotations are as wanted, and returns them. */
    until: async (name: string, isWanted: (annotations: Annotations) => boolean): Promise<Annotations> => {
      const is = (pv: PersistentVolume | undefined) => pv !== undefined && isWanted(pv.metadata?.annotations ?? {});
      const pv = await volumes.until(name, is, AbortSignal.timeout(60_000)).catch((error: unknown) => {
        throw new Error(`${name} is ${JSON.stringify(volumes.get(name), undefined, 1)}`, { cause: error });
      });
      return pv?.metadata.annotations ?? {};
    },
  };
}

/** Only changes are steps. */
function steppedPool(pool: Pool, killer: Killer): Pool {
  const steps: ReadonlySet<string | symbol> = new Set(['create', 'grow', 'addTags', 'remove', 'empty']);
  return new Proxy(pool, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== 'function') return value;
      const method = (...args: unknown[]): unknown => Reflect.apply(value, target, args);
      return steps.has(name) ? (...args: unknown[]) => killer.step(async () => method(...args)) : method;
    },
  });
}

function steppedClient(
  api: InMemoryApi<PersistentVolume>,
  secrets: ReadonlyMap<string, Readonly<Record<string, string>>>,
  killer: Killer,
): KubeClient {
  const { client } = api;
  const stepped: Pick<KubeClient, 'get' | 'list' | 'watch' | 'patch'> = {
    get: (resource, name) =>
      killer.step(async () =>
        resource.kind === 'Secret' ? ({ data: secrets.get(name) } as never) : client.get(resource, name),
      ),
    list: (resource, options) => client.list(resource, options),
    watch: (resource, options) => client.watch(resource, options),
    patch: (resource, name, patch, place) => killer.step(() => client.patch(resource, name, patch, place)),
  };
  return stepped as KubeClient;
}
