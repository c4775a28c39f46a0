import type { TestContext } from 'node:test';
import { localPvAnnotations, localPvFinalizer, localPvStatus } from '../../../api/local-pv.ts';
import { systemClock } from '../../../base/clock.ts';
import { ManualClock } from '../../../base/testing/manual-clock.ts';
import { silentLog } from '../../../base/testing/silent-log.ts';
import { Workers } from '../../../base/work.ts';
import { filesystemTag } from '../../../engine/names-and-tags.ts';
import type { Volume } from '../../../engine/pool.ts';
import { poolOfGroup } from '../../../engine/pool-of-group.ts';
import { Pools } from '../../../engine/pools.ts';
import { InMemoryPool } from '../../../engine/testing/in-memory-pool.ts';
import type { Zeros } from '../../../filesystem/all-zero.ts';
import type { Probe } from '../../../filesystem/probe.ts';
import type { KubeClient } from '../../../kube/client.ts';
import { Informer } from '../../../kube/informer.ts';
import { type PersistentVolume, persistentVolumes } from '../../../kube/resource.ts';
import { InMemoryApi } from '../../../kube/testing/in-memory-api.ts';
import { type Defaults, noDefaults } from '../../../local-pv/defaults.ts';
import type { StaticVolume } from '../../../local-pv/static-volume.ts';
import type { Held } from '../next-step.ts';
import { StaticVolumeReconciler } from '../static-volume-reconciler.ts';
import { staticVolumeWork } from '../static-volume-work.ts';
import type { StoredPersistentVolume } from '../static-volume-writer.ts';
import { VolumeSteps } from '../volume-steps.ts';

const mebibyte = 1024n ** 2n;
export const never = new AbortController().signal;

interface Spec {
  readonly annotations?: Readonly<Record<string, string>>;
  readonly spec?: NonNullable<PersistentVolume['spec']>;
}

/** A PersistentVolume that the controller has handed over to this node. */
export function handedOver({ annotations, spec }: Spec = {}): PersistentVolume {
  return {
    metadata: {
      name: 'db',
      finalizers: [localPvFinalizer],
      annotations: {
        [localPvAnnotations.node]: 'a',
        'local-pv.k8s.portavita.net/vg': 'vg-ssd',
        ...annotations,
      },
    },
    spec: { local: { path: '/mnt/pv/db' }, capacity: { storage: '64Mi' }, ...spec },
  };
}

/** For tests: instead of filesystems and mounts, a set of shown volumes. Its next call fails with `failure`, if set. */
class RememberedPaths {
  readonly shown = new Set<string>();
  readonly steps: string[] = [];
  failure: Error | undefined;

  async show({ name, filesystem }: StaticVolume, { pool, volume }: Held): Promise<void> {
    this.#step(`show ${name} ${filesystem.name} ${volume.sizeBytes / mebibyte}Mi`);
    await pool.addTags(name, [filesystemTag(filesystem.name)], never);
    this.shown.add(name);
  }

  async hide({ name }: StaticVolume, volume: Volume | undefined): Promise<void> {
    this.#step(`hide ${name}${volume ? '' : ' without a volume'}`);
    this.shown.delete(name);
  }

  #step(step: string): void {
    this.steps.push(step);
    const { failure } = this;
    this.failure = undefined;
    if (failure) throw failure;
  }
}

interface StaticNodeOptions {
  readonly releases?: boolean;
  /** Of a real API server, instead of the one in memory. */
  readonly client?: KubeClient;
}

/** For tests: a node with the volume group `vg-ssd` that processes static volumes as the agent does. */
export function staticNode(t: Pick<TestContext, 'after'>, { releases = false, ...options }: StaticNodeOptions = {}) {
  const api = new InMemoryApi<PersistentVolume>();
  const { client = api.client } = options;
  const clock = new ManualClock();
  const pool = new InMemoryPool('ssd', 1024n * mebibyte);
  const served = new Pools([pool], 'ssd');
  const groups: string[][] = [];
  const pools = {
    pools: served,
    allPools: served,
    serveGroups: async (names: ReadonlySet<string>) => void groups.push([...names]),
    poolOfGroup: (name: string) => poolOfGroup(served, [], name),
  };
  const volumes = new Informer({ client, resource: persistentVolumes, clock: systemClock, log: silentLog });
  const paths = new RememberedPaths();
  const disk: { probe: Probe; zeros: Zeros } = { probe: { kind: 'empty' }, zeros: { kind: 'zero' } };
  const steps = new VolumeSteps({
    shown: paths,
    probe: async () => disk.probe,
    allZero: async () => disk.zeros,
    hold: async () => new AsyncDisposableStack(),
    log: silentLog,
  });
  let current: Defaults | Error = noDefaults;
  const listeners = new Set<() => void>();
  const defaults = {
    synced: true,
    get: () => {
      if (current instanceof Error) throw current;
      return current;
    },
    onChange: (listener: () => void) => {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  };
  const setDefaults = (next: Defaults | Error) => {
    current = next;
    for (const listener of listeners) listener();
  };
  const common = { volumes, defaults, pools, log: silentLog };
  const reconciler = new StaticVolumeReconciler({
    ...{ ...common, client, steps, mountBase: '/mnt/pv', releases },
  });
  const workers = new Workers([staticVolumeWork({ ...common, reconciler })], {
    clock,
    log: silentLog,
    random: () => 0,
  });
  workers.start();
  volumes.start();
  t.after(async () => {
    await workers.stop(0);
    await volumes.stop();
  });
  const until = (isWanted: (annotations: Readonly<Record<string, string>>) => boolean, name = 'db') =>
    volumes.until(name, (pv) => pv !== undefined && isWanted(pv.metadata.annotations ?? {}), never);
  return {
    ...{ api, clock, pool, groups, paths, disk, defaults, setDefaults, volumes, until },
    create: (pv = handedOver()) => api.create(persistentVolumes, pv),
    change: (body: object, name = 'db') => api.patch(persistentVolumes, name, { type: 'merge', body }),
    delete: (name = 'db') => api.delete(persistentVolumes, name),
    processed: () => until((annotations) => annotations[localPvAnnotations.status] === localPvStatus.processed),
    /** The message of the next failure. */
    failed: async () => {
      const pv = await until((annotations) => annotations[localPvAnnotations.status] === localPvStatus.failed);
      return messageIn(pv);
    },
  };
}

export function messageIn(pv: StoredPersistentVolume | undefined): string | undefined {
  return pv?.metadata.annotations?.[localPvAnnotations.message];
}
