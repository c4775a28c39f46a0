import { setImmediate as nextTurn } from 'node:timers/promises';
import { MoorageError } from '../../../src/base/errors.ts';
import type { Run } from '../../../src/base/exec.ts';
import { ManualClock } from '../../../src/base/testing/manual-clock.ts';
import { silentLog } from '../../../src/base/testing/silent-log.ts';
import type { ThickClass, ThinClass } from '../../../src/engine/config/device-classes.ts';
import { Eraser } from '../../../src/engine/erase/eraser.ts';
import { Erasures } from '../../../src/engine/erase/erasures.ts';
import { LvmPool } from '../../../src/engine/lvm/lvm-pool.ts';
import type { SimulatedLvm } from '../../../src/engine/lvm/testing/simulated-lvm.ts';
import { simulatedGroup } from '../../../src/engine/lvm/testing/simulated-pools.ts';
import type { VolumeGroup } from '../../../src/engine/lvm/volume-group.ts';
import type { Pool, Volume } from '../../../src/engine/pool.ts';
import { apply, type Change, type Engine, EngineDied, Refused } from './engine.ts';

const neverAborted = new AbortController().signal;

const lvmClass = {
  isDefault: false,
  spareBytes: 0n,
  erase: { kind: 'none' as const },
  volumeGroup: 'vg',
  stripes: 0,
  stripeSize: undefined,
  lvcreateOptions: [],
};
const thickClass: ThickClass = { ...lvmClass, type: 'thick', name: 'thick', snapshots: 'none' };
const thinPool = { name: 'pool', overprovisionRatio: 10, maxDataPercent: 90, maxMetadataPercent: 85 };
const thinClass: ThinClass = { ...lvmClass, type: 'thin', name: 'thin', thinPool };

/** A thick and a thin pool on a simulated volume group. Once killed, it runs no further command and answers nothing. */
export class SimulatedEngine implements Engine {
  readonly #clock = new ManualClock();
  readonly #group: VolumeGroup;
  readonly #pools = new Map<string, Pool>();
  readonly #died = Promise.withResolvers<never>();
  #dead = false;

  private constructor(simulated: SimulatedLvm) {
    const run: Run = async (command, options) => {
      await nextTurn(); // gives a crash the chance to happen
      return this.#dead ? this.#died.promise : simulated.run(command, options);
    };
    this.#group = simulatedGroup(simulated, { clock: this.#clock, run });
    this.#died.promise.catch(() => undefined); // nobody need wait for an answer
  }

  static async start(simulated: SimulatedLvm): Promise<SimulatedEngine> {
    const engine = new SimulatedEngine(simulated);
    const common = { clock: engine.#clock, log: silentLog };
    const shared = { group: engine.#group, optionClasses: [], run: simulated.run, ...common };
    const erasures = () => new Erasures({ eraser: new Eraser(simulated.run), ...common });
    const deviceSize = async () => undefined; // there are no devices
    await engine.#group.refresh(neverAborted);
    const thick = { ...shared, deviceClass: thickClass, erasures: erasures() };
    engine.#pools.set('thick', await LvmPool.open(thick, neverAborted));
    const thin = { ...shared, deviceClass: thinClass, erasures: erasures(), deviceSize };
    engine.#pools.set('thin', await LvmPool.open(thin, neverAborted));
    return engine;
  }

  async change(pool: string, change: Change): Promise<Volume | undefined> {
    try {
      return await Promise.race([apply(this.#pool(pool), change), this.#died.promise]);
    } catch (error) {
      throw error instanceof MoorageError && !(error instanceof EngineDied) ? new Refused(error) : error;
    }
  }

  async list(pool: string): Promise<readonly Volume[]> {
    await this.#group.lookAgain(neverAborted);
    return this.#pool(pool).list();
  }

  async kill(): Promise<void> {
    this.#dead = true;
    this.#died.reject(new EngineDied('the engine is gone; start another one'));
  }

  #pool(name: string): Pool {
    const pool = this.#pools.get(name);
    if (!pool) throw new Error(`there is no pool ${name}`);
    return pool;
  }
}
