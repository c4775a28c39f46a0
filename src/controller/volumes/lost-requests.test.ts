import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { type LogicalVolume, logicalVolumes, volumeIdOf } from '../../api/logical-volume.ts';
import { pause } from '../../base/abortable.ts';
import type { Clock } from '../../base/clock.ts';
import { ManualClock } from '../../base/testing/manual-clock.ts';
import { Random } from '../../base/testing/random.ts';
import { silentLog } from '../../base/testing/silent-log.ts';
import { Workers } from '../../base/work.ts';
import type { WantedVolume } from '../../csi/controller/volume-store.ts';
import { Pools } from '../../engine/pools.ts';
import { InMemoryPool } from '../../engine/testing/in-memory-pool.ts';
import { ApiUnreachable } from '../../kube/api-error.ts';
import { Informer } from '../../kube/informer.ts';
import { InMemoryApi } from '../../kube/testing/in-memory-api.ts';
import { volumeWork } from '../../node/reconcile/logical-volume-reconciler.ts';
import { noCopies } from '../testing/in-memory-store.ts';
import { LogicalVolumeObjects } from './logical-volume-objects.ts';
import { LogicalVolumeSnapshots } from './logical-volume-snapshots.ts';
import { LogicalVolumeStore } from './logical-volume-store.ts';

type AnyMethods = Record<string, (...args: unknown[]) => Promise<unknown>>;

interface Controller {
  readonly watched: Informer<LogicalVolume>;
  readonly volume: LogicalVolumeStore;
  readonly snapshot: LogicalVolumeSnapshots;
}

interface Node {
  stop(): Promise<void>;
}

/** With 354 and 488, an outdated refusal deleted a volume. */
const seeds = process.env['MOORAGE_TEST_SEED']?.split(',').map(Number) ?? [1, 2, 3, 354, 488];

const never = new AbortController().signal;

/**
 * Controllers and the agent of one node. Requests and answers between them get lost while `isRough`; watches always lag.
 * Everything waits only for its own clock, so that what happens, and in which order, follows from the random numbers.
 */
class RoughCluster {
  isRough = true;
  readonly clock = new ManualClock();
  readonly #random: Random;
  readonly pool = new InMemoryPool('ssd', 1024n ** 4n);
  readonly api = new InMemoryApi<LogicalVolume>();
  readonly controllers: readonly Controller[];
  #node: Promise<Node>;

  constructor(random: Random) {
    this.#random = random;
    const lost = () => new ApiUnreachable('a request', 'the server', new Error('lost'));
    const slow = () => Object.assign(new Error('slow'), { name: 'TimeoutError' });
    const broken = () => new Error('broken');
    this.#roughen(this.api, ['create', 'patch', 'delete', 'get', 'list'], [lost]);
    this.#delayWatches();
    this.#roughen(this.pool, ['create', 'grow', 'snapshot', 'remove'], [slow, broken]);
    this.controllers = [this.#startController(), this.#startController()];
    this.#node = Promise.resolve(this.#startNode());
  }

  /** There is never more than one agent of a node. */
  async restartNode(): Promise<void> {
    this.#node = this.#node.then(async (node) => {
      await node.stop();
      return this.#startNode();
    });
    await this.#node;
  }

  /** Time passes only while nothing else can happen. */
  async during<T>(work: Promise<T>): Promise<T> {
    const done = new AbortController();
    const end = () => done.abort();
    work.then(end, end);
    while (!done.signal.aborted) {
      await setImmediate();
      this.clock.advance(1);
    }
    return work;
  }

  signalFor(ms: number): AbortSignal {
    const controller = new AbortController();
    this.clock.setTimer(() => controller.abort(new DOMException('the time is over', 'TimeoutError')), ms);
    return controller.signal;
  }

  async stop(): Promise<void> {
    await (await this.#node).stop();
    for (const { watched } of this.controllers) await watched.stop();
  }

  /** Each method fails now and then, before or after it has done its work. */
  #roughen(target: object, methods: readonly string[], failures: readonly (() => Error)[]): void {
    const object = target as AnyMethods;
    for (const name of methods) {
      const method = object[name]?.bind(target);
      object[name] = async (...args) => {
        const failure = this.isRough && this.#random.chance(1 / 3) ? this.#random.pick(failures) : undefined;
        if (failure && this.#random.chance(1 / 2)) throw failure();
        const answer = await method?.(...args);
        await pause(this.clock, 1, never);
        if (failure) throw failure();
        return answer;
      };
    }
  }

  /** Watches lag: their state is older than what was written. */
  #delayWatches(): void {
    const watch = this.api.watch.bind(this.api);
    const lag = async () => {
      if (this.#random.chance(1 / 2)) await pause(this.clock, 1 + this.#random.below(20), never);
    };
    this.api.watch = async function* (...args) {
      for await (const event of watch(...args)) {
        await lag();
        yield event;
      }
    };
  }

  #startController(): Controller {
    const watched = this.#watch();
    const objects = new LogicalVolumeObjects({ client: this.api.client, watched });
    const volumes = new LogicalVolumeStore({ objects, copies: noCopies, clock: this.clock });
    return { watched, volume: volumes, snapshot: new LogicalVolumeSnapshots(objects) };
  }

  #startNode(): Node {
    const volumes = this.#watch();
    const pools = new Pools([this.pool], 'ssd');
    const { client } = this.api;
    const options = { clock: this.#quickClock, log: silentLog, random: () => this.#random.next() };
    const work = new Workers([volumeWork({ client, volumes, pools, log: silentLog })], options);
    work.start();
    return {
      async stop() {
        await work.stop(0);
        await volumes.stop();
      },
    };
  }

  /** The delay before a retry is not under test here. */
  get #quickClock(): Clock {
    const { clock } = this;
    return {
      now: () => clock.now(),
      monotonic: () => clock.monotonic(),
      setTimer: (callback, delayMs) => clock.setTimer(callback, delayMs / 20),
    };
  }

  #watch() {
    const { client } = this.api;
    const watched = new Informer({ client, resource: logicalVolumes, clock: this.clock, log: silentLog });
    watched.start();
    return watched;
  }
}

for (const seed of seeds) {
  test(`lost requests and answers neither lose an acknowledged volume nor leave one behind: seed ${seed}`, async (t) => {
    const random = new Random(seed);
    const cluster = new RoughCluster(random);
    t.after(() => cluster.during(cluster.stop()));
    await cluster.during(useAndRemove(cluster, random));
  });
}

async function useAndRemove(cluster: RoughCluster, random: Random): Promise<void> {
  const { pool, controllers } = cluster;
  const acknowledged = new Map<string, 'volume' | 'snapshot'>();
  const unwanted = new Set<string>();
  /** Throws if there is nothing to pick from. */
  const pick = <T>(from: readonly T[]): T => {
    const picked = random.pick(from);
    if (picked === undefined) throw new RangeError('there is nothing to pick from');
    return picked;
  };
  const upTo = (count: number) => 1 + random.below(count);

  const keep = ({ id }: { readonly id: string }, kind: 'volume' | 'snapshot') => {
    if (!unwanted.has(id)) acknowledged.set(id, kind);
  };
  const create = async ({ volume }: Controller, signal: AbortSignal) =>
    keep(await volume.create(wanted(`pvc-${upTo(3)}`), signal), 'volume');
  const deeds: ((controller: Controller, signal: AbortSignal) => Promise<void>)[] = [
    create,
    create,
    create,
    create,
    async ({ volume }, signal) => {
      const [id, kind] = pick([...acknowledged]);
      keep(await volume.create({ ...wanted(`copy-${upTo(4)}`), source: { kind, id } }, signal), 'volume');
    },
    async ({ snapshot }, signal) => {
      const [sourceId] = pick([...acknowledged]);
      keep(await snapshot.create({ name: `snapshot-${upTo(4)}`, sourceId }, signal), 'snapshot');
    },
    async ({ volume }, signal) => void (await volume.grow(pick([...acknowledged])[0], 4096n * BigInt(upTo(9)), signal)),
    async (controller, signal) => {
      const [id, kind] = pick([...acknowledged]);
      unwanted.add(id);
      acknowledged.delete(id);
      await controller[kind].remove(id, signal);
      assert.equal(pool.get(id), undefined, `${id} was reported as removed`);
    },
    async () => cluster.restartNode(),
  ];
  const tryOne = async () => {
    try {
      await pick(deeds)(pick(controllers), cluster.signalFor(upTo(200)));
    } catch (error) {
      if (error instanceof assert.AssertionError) throw error; // any other refusal is fine
    }
    for (const id of acknowledged.keys()) assert.ok(pool.get(id), `${id} was acknowledged but is lost`);
  };
  for (let wave = 0; wave < 30; wave++) await Promise.all(Array.from({ length: 8 }, tryOne));

  cluster.isRough = false;
  await cluster.restartNode();
  const { volume, snapshot } = pick(controllers);
  const { items } = await cluster.api.list(logicalVolumes);
  for (const id of new Set([...unwanted, ...items.map(volumeIdOf)])) {
    if (acknowledged.has(id)) continue;
    await retried(cluster, (signal) => volume.remove(id, signal));
    await retried(cluster, (signal) => snapshot.remove(id, signal));
  }
  assert.deepEqual(new Set(pool.list().map(({ id }) => id)), new Set(acknowledged.keys()));
}

/** As csi-provisioner does: the refusal that it sees may be that of an earlier attempt, which the node repeats. */
async function retried(cluster: RoughCluster, call: (signal: AbortSignal) => Promise<void>): Promise<void> {
  const signal = cluster.signalFor(30_000);
  for (;;) {
    try {
      return await call(signal);
    } catch (error) {
      if (signal.aborted) throw error;
      await pause(cluster.clock, 5, never);
    }
  }
}

function wanted(name: string): WantedVolume {
  return { name, nodeNames: ['a'], deviceClass: '', lvcreateOptionClass: '', isEncrypted: false, sizeBytes: 4096n };
}
