import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import type { Random } from '../../../src/base/testing/random.ts';
import type { Volume, VolumeId } from '../../../src/engine/pool.ts';
import { eventually } from '../../../worlds/host/eventually.ts';
import { type Change, type Engine, EngineDied, Refused } from './engine.ts';
import type { Found } from './found.ts';
import { type PoolModel, subject } from './model.ts';

/** A pool as the engine serves it, and as it is outside the engine. */
export interface PoolUnderTest {
  readonly model: PoolModel;
  readonly find: () => Promise<readonly Found[]>;
  /** The first bytes of a device. */
  readonly data: {
    write(devicePath: string, stamp: string): Promise<void>;
    read(devicePath: string): Promise<string>;
  };
  /** Changes made without the engine; a file pool belongs to the engine alone. */
  readonly outside?: {
    readonly sizeBytes: bigint;
    /** Returns the path of its device. */
    create(id: VolumeId): Promise<string>;
    remove(id: VolumeId): Promise<void>;
  };
}

export interface ModelRunOptions {
  readonly pools: readonly PoolUnderTest[];
  readonly random: Random;
  readonly start: () => Promise<Engine>;
  /** The longest time from a request to a crash: about as long as a few changes take. */
  readonly crashWithinMs: number;
}

interface Pending {
  readonly pool: PoolUnderTest;
  readonly change: Change;
  /** Repeated as soon as it is acknowledged. */
  readonly twice: boolean;
}

const mostAtOnce = 4;
const checkEvery = 100;
/** How soon the engine must notice outside changes. */
const noticedWithinMs = 60_000;
const lastWords = 25;

/** Random changes, crashes and outside changes; the state is compared with the model again and again. */
export class ModelRun {
  readonly #pools: readonly PoolUnderTest[];
  readonly #random: Random;
  readonly #start: () => Promise<Engine>;
  readonly #crashWithinMs: number;
  readonly #log: string[] = [];
  readonly counts = { changes: 0, refusals: 0, crashes: 0, outside: 0, checks: 0 };

  constructor({ pools, random, start, crashWithinMs }: ModelRunOptions) {
    this.#pools = pools;
    this.#random = random;
    this.#start = start;
    this.#crashWithinMs = crashWithinMs;
  }

  /** Runs while `goOn` returns true; throws with the latest history if a promise is broken. */
  async run(goOn: () => boolean): Promise<void> {
    let engine = await this.#start();
    try {
      let checkAt = checkEvery;
      while (goOn()) {
        if (this.#random.chance(0.1)) await this.#changeOutside();
        const pending = this.#nextChanges();
        const crashes = this.#random.chance(0.02);
        const left = await this.#perform(engine, pending, crashes);
        if (crashes) {
          engine = await this.#start();
          await this.#completeAfterCrash(engine, left);
        }
        if (!crashes && this.counts.changes < checkAt) continue;
        checkAt = this.counts.changes + checkEvery;
        await this.#check(engine);
      }
      await this.#check(engine);
    } catch (error) {
      throw new Error(`after ${JSON.stringify(this.counts)}:\n  ${this.#log.slice(-lastWords).join('\n  ')}`, {
        cause: error,
      });
    } finally {
      await engine.kill();
    }
  }

  /** A few changes of different volumes. */
  #nextChanges(): Pending[] {
    const requests = Array.from({ length: 1 + this.#random.below(mostAtOnce) }, () => {
      const pool = this.#random.pick(this.#pools) as PoolUnderTest;
      return { pool, change: pool.model.nextChanges(this.#random), twice: this.#random.chance(0.1) };
    });
    const touched = new Set<string>();
    return requests.flatMap(({ pool, change, twice }) => {
      const involved = change ? pool.model.involved(change).map((id) => `${pool.model.name}/${id}`) : [];
      if (!change || involved.some((id) => touched.has(id))) return [];
      for (const id of involved) touched.add(id);
      return [{ pool, change, twice }];
    });
  }

  /** Runs all at once; returns those that a crash left without an answer. */
  async #perform(engine: Engine, pending: readonly Pending[], crashes: boolean): Promise<Pending[]> {
    const work = pending.map((one) => this.#ask(engine, one));
    if (crashes) {
      this.counts.crashes++;
      await delay(this.#random.below(this.#crashWithinMs)); // varies the moment of the crash
      this.#log.push('crash');
      await engine.kill();
    }
    const results = await Promise.allSettled(work);
    return pending.filter((_, index) => {
      const result = results[index];
      if (result?.status !== 'rejected') return false;
      if (crashes && result.reason instanceof EngineDied) return true;
      throw result.reason;
    });
  }

  /** A request without an answer can be retried, or given up. */
  async #completeAfterCrash(engine: Engine, left: readonly Pending[]): Promise<void> {
    for (const { pool, change } of left) {
      const givesUp = 'wanted' in change && this.#random.chance(0.3);
      await this.#ask(engine, {
        pool,
        change: givesUp ? { kind: 'remove', id: subject(change) } : change,
        twice: true,
      });
    }
  }

  async #ask(engine: Engine, { pool, change, twice }: Pending): Promise<void> {
    const { model } = pool;
    const allowed = model.mayRefuse(change);
    const words = `${model.name}: ${JSON.stringify(change, (_, value) => (typeof value === 'bigint' ? `${value}` : value))}`;
    this.#log.push(words);
    this.counts.changes++;
    let volume: Volume | undefined;
    try {
      volume = await engine.change(model.name, change);
    } catch (error) {
      this.#log.push(`${words} failed: ${(error as Error).message}`);
      if (error instanceof Refused && allowed.includes(error.code)) this.counts.refusals++;
      else throw error;
      return;
    }
    if (change.kind === 'create') assert.ok(!allowed.includes('ResourceExhausted'), `${words} should not have fit`);
    model.acknowledge(change);
    if (volume && 'wanted' in change) await this.#stamp(pool, volume);
    if (twice) await engine.change(model.name, change).catch(unlessDied); // the first answer counts
  }

  /** Writes unique bytes to a new volume; a copy must first have those of its source. */
  async #stamp({ model, data }: PoolUnderTest, { id, devicePath }: Volume): Promise<void> {
    const { stamp, readOnly } = model.mustHave(id);
    if (stamp !== '') assert.equal(await data.read(devicePath), stamp, `${id} does not hold what its source held`);
    if (readOnly) return;
    const own = `${model.name}/${id}`;
    await data.write(devicePath, own);
    model.stamped(id, own);
  }

  async #changeOutside(): Promise<void> {
    const { model, data, outside } = this.#random.pick(this.#pools) as PoolUnderTest;
    if (!outside) return;
    this.counts.outside++;
    const isOrigin = (id: VolumeId) => [...model.volumes.values()].some(({ origin }) => origin === id);
    const victim = this.#random.pick([...model.volumes.keys()].filter((id) => !isOrigin(id)));
    if (victim && this.#random.chance(0.5)) {
      this.#log.push(`${model.name}: ${victim} removed from outside`);
      model.volumes.delete(victim); // the record that allows it to be gone
      await outside.remove(victim);
      return;
    }
    const id = model.newId('outside');
    this.#log.push(`${model.name}: ${id} made from outside`);
    const devicePath = await outside.create(id);
    await data.write(devicePath, id);
    model.volumes.set(id, { sizeBytes: outside.sizeBytes, tags: [], stamp: id, readOnly: false });
    model.unnoticed.add(id);
  }

  /** Cache, disks and model agree, and every volume has its bytes. */
  async #check(engine: Engine): Promise<void> {
    this.counts.checks++;
    for (const { model, find, data } of this.#pools) {
      const found = byId(await find());
      await eventually(
        `the engine knows what is in ${model.name}`,
        async () => {
          assert.deepEqual(byId((await engine.list(model.name)).map(withoutDevice)), found);
          return true;
        },
        { timeoutMs: noticedWithinMs },
      );
      model.unnoticed.clear();
      assert.deepEqual([...found.keys()], [...model.volumes.keys()].sort(), `${model.name} holds what it should`);
      const volumes = new Map((await engine.list(model.name)).map((volume) => [volume.id, volume]));
      for (const [id, expected] of model.volumes) {
        const volume = volumes.get(id);
        assert.ok(volume && volume.sizeBytes >= expected.sizeBytes, `${model.name}/${id} has its size`);
        assert.deepEqual(
          expected.tags.filter((tag) => !volume.tags.includes(tag)),
          [],
          `${model.name}/${id} has its tags`,
        );
        assert.equal(await data.read(volume.devicePath), expected.stamp, `${model.name}/${id} holds its data`);
      }
    }
  }
}

function unlessDied(error: unknown): void {
  if (!(error instanceof EngineDied)) throw error;
}

function byId(volumes: readonly Found[]): Map<VolumeId, Found> {
  const sorted = volumes.map((volume) => ({ ...volume, tags: volume.tags.toSorted() }));
  return new Map(sorted.sort((a, b) => (a.id < b.id ? -1 : 1)).map((volume) => [volume.id, volume]));
}

function withoutDevice({ id, sizeBytes, tags }: Volume): Found {
  return { id, sizeBytes, tags };
}
