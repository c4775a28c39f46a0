import { isDeepStrictEqual } from 'node:util';
import { abortable } from '../base/abortable.ts';
import type { Clock } from '../base/clock.ts';
import { codeOf, MoorageError } from '../base/errors.ts';
import { KeyedQueue, Requeue } from '../base/keyed-queue.ts';
import type { Log } from '../base/log.ts';
import type { PlacedVolume } from '../engine/pool.ts';
import { Pools } from '../engine/pools.ts';
import { RpcClient } from '../rpc/client.ts';
import { LVService, VGService, type WatchResponse } from '../rpc/gen/lvmd/lvmd_pb.ts';
import {
  EngineService,
  type ListPoolsResponse,
  type PlacedVolume as PlacedMessage,
} from '../rpc/gen/moorage/v1/engine_pb.ts';
import { type Lvmd, RemotePool } from './remote-pool.ts';

interface Collaborators {
  readonly socketPath: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly random: () => number;
}

/** lvmd answers this call from memory. */
const listTimeoutMs = 10_000;
/** lvmd has stopped, and is most likely restarting. */
const returnsWithinMs = 1000;

/**
 * The pools of an lvmd in another process, ours or TopoLVM's, kept in memory by its watch. While it is down, reads answer
 * with the last known state and changes fail; when it is back, everything is read again.
 *
 * TopoLVM's lvmd does not report which class is the default. It serves the empty name, so that is a pool as well.
 */
export class RemotePools {
  readonly pools = new Pools();
  readonly #socketPath: string;
  readonly #clients = new DisposableStack();
  readonly #lvmd: Lvmd;
  readonly #log: Log;
  readonly #known = new Map<string, RemotePool>();
  readonly #watch: KeyedQueue;
  readonly #loaded = Promise.withResolvers<void>();
  #isAway = true;

  private constructor({ socketPath, clock, log, random }: Collaborators) {
    this.#socketPath = socketPath;
    this.#log = log;
    this.#lvmd = {
      volumes: this.#clients.use(new RpcClient(LVService, socketPath)).methods,
      groups: this.#clients.use(new RpcClient(VGService, socketPath)).methods,
      engine: this.#clients.use(new RpcClient(EngineService, socketPath)).methods,
    };
    const reconcile = (_: string, signal: AbortSignal) => this.#follow(signal);
    this.#watch = new KeyedQueue({ reconcile, concurrency: 1, clock, log, random });
    this.#watch.add(socketPath);
  }

  /** Waits until lvmd has reported its pools: before that, a volume that is not found may still exist. */
  static async connect(collaborators: Collaborators, signal: AbortSignal): Promise<RemotePools> {
    const remote = new RemotePools(collaborators);
    try {
      await abortable(remote.#loaded.promise, signal);
    } catch (error) {
      await remote.stop();
      throw error;
    }
    return remote;
  }

  /** Whether lvmd does not answer at present. */
  get isAway(): boolean {
    return this.#isAway;
  }

  async stop(): Promise<void> {
    await this.#watch.stop(0);
    this.#clients.dispose();
  }

  /** Runs as long as lvmd's watch. */
  async #follow(signal: AbortSignal): Promise<Requeue> {
    let hasAnswered = false;
    try {
      for await (const state of this.#lvmd.groups.watch({}, { signal })) {
        await this.#take(state, signal);
        hasAnswered = true;
        this.#isAway = false;
        this.#loaded.resolve();
      }
    } catch (error) {
      if (signal.aborted) return Requeue.never;
      this.#lose();
      if (!hasAnswered) throw codeOf(error) === 'Unavailable' ? new LvmdUnreachable(this.#socketPath, error) : error;
      this.#log.warn({ err: error }, 'lvmd does not answer; using its last known state until it is back');
    }
    return Requeue.after(returnsWithinMs);
  }

  #lose(): void {
    if (this.#isAway) return;
    this.#isAway = true;
    this.pools.become({ pools: this.pools.all(), defaultClass: '', unavailable: this.pools.unavailable() }); // notifies
  }

  async #take({ items, freeBytes }: WatchResponse, signal: AbortSignal): Promise<void> {
    const named = items.map((item) => {
      const pool = this.#pool(item.deviceClass);
      pool.hear(item);
      return pool;
    });
    await Promise.all(named.map((pool) => pool.refresh(signal)));
    const pools = [...named, ...(await this.#default(freeBytes, signal))];
    const { pools: reported, unserved } = await this.#reported(signal);
    for (const pool of named) pool.describe(reported.find(({ deviceClass }) => deviceClass === pool.name));
    const unavailable = new Map(
      reported
        .filter(({ unavailable }) => unavailable !== '')
        .map(({ deviceClass, unavailable }) => [deviceClass, new NotServedByLvmd(unavailable)]),
    );
    const known = this.pools.all();
    const isNews =
      pools.length !== known.length ||
      pools.some((pool, i) => pool !== known[i]) ||
      !isDeepStrictEqual([...unavailable], [...this.pools.unavailable()]);
    if (isNews) this.pools.become({ pools, defaultClass: '', unavailable });
    this.pools.foundUnserved(unserved.map(placedVolume));
  }

  /**
   * What only our own lvmd reports: details, classes that it cannot serve now, which are not missing, and volumes that no
   * class has.
   */
  async #reported(signal: AbortSignal): Promise<Pick<ListPoolsResponse, 'pools' | 'unserved'>> {
    try {
      return await this.#lvmd.engine.listPools({}, { timeoutMs: listTimeoutMs, signal });
    } catch (error) {
      if (codeOf(error) === 'Unimplemented') return { pools: [], unserved: [] };
      throw error;
    }
  }

  /** The pool with the empty name, if lvmd has a default class. Only its free space is reported, not its size. */
  async #default(freeBytes: bigint, signal: AbortSignal): Promise<readonly RemotePool[]> {
    const pool = this.#pool('');
    try {
      await pool.refresh(signal);
    } catch (error) {
      if (codeOf(error) === 'NotFound') return [];
      throw error;
    }
    pool.hear({ sizeBytes: freeBytes, freeBytes });
    return [pool];
  }

  #pool(name: string): RemotePool {
    const known = this.#known.get(name) ?? new RemotePool(name, this.#lvmd, this.#log);
    this.#known.set(name, known);
    return known;
  }
}

function placedVolume(message: PlacedMessage): PlacedVolume {
  const { name, sizeBytes, tags, readOnly, volumeGroup, thinPool } = message;
  return { id: name, sizeBytes, tags, readOnly, volumeGroup, ...(thinPool && { thinPool }) };
}

export class LvmdUnreachable extends MoorageError {
  readonly code = 'Unavailable';

  constructor(socketPath: string, cause: unknown) {
    super(`no lvmd answers on ${socketPath}; start it there, or run the engine in this process with --embed-lvmd`, {
      cause,
    });
  }
}

class NotServedByLvmd extends MoorageError {
  readonly code = 'Unavailable';
}
