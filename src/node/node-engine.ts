import { capacityAnnotationPrefix, defaultCapacityAnnotation } from '../api/names.ts';
import type { Clock } from '../base/clock.ts';
import type { Run } from '../base/exec.ts';
import type { Log } from '../base/log.ts';
import type { DeviceClass } from '../engine/config/device-classes.ts';
import { isGroupClass } from '../engine/config/group-classes.ts';
import type { Pool } from '../engine/pool.ts';
import { poolOfGroup } from '../engine/pool-of-group.ts';
import type { Pools } from '../engine/pools.ts';
import { type LvmAbilities, StorageEngine } from '../engine/storage-engine.ts';
import { engineProblems } from '../lvmd/engine-health.ts';
import { mustBeOnlyLvmd, serveLvmd } from '../lvmd/lvmd-server.ts';
import { RemotePools } from '../lvmd/remote-pools.ts';
import { configGauge, lvmMetrics, operationLatency } from '../metrics/engine-metrics.ts';
import type { Metric } from '../metrics/metric.ts';
import type { AnsweredCall } from '../rpc/server.ts';
import { capacityAnnotations } from './node-object/capacity-annotations.ts';

export interface NodeEngineOptions {
  /** Empty for no device classes. */
  readonly configFile: string;
  readonly stateDirectory: string;
  /** The socket of lvmd: served by this process if the engine is embedded, otherwise by another one. */
  readonly lvmdSocket: string;
  readonly run: Run;
  /** The environment of LVM commands. */
  readonly env: NodeJS.ProcessEnv;
  /** Called after every call to an embedded engine. */
  readonly onAnswered: (call: AnsweredCall) => void;
  readonly clock: Clock;
  readonly log: Log;
}

/** The storage engine as the node's agent uses it, in this process or in another. */
export interface NodeEngine {
  /** The device classes, which CSI offers. */
  readonly pools: Pools;
  /** Also the volume groups that are served without a class. */
  readonly allPools: Pools;
  /** Replaces the set of volume groups that are served even without a class. An lvmd in another process serves only its own. */
  serveGroups(volumeGroups: ReadonlySet<string>, signal: AbortSignal): Promise<void>;
  /** The pool with the thick volumes of a volume group; throws if there is none, or none now. */
  poolOfGroup(volumeGroup: string): Pool;
  /** The current values of the Node's capacity annotations. */
  annotations(): ReadonlyMap<string, string>;
  /** Those of all pools, available or not; empty if another process has the configuration. */
  readonly deviceClasses: () => readonly DeviceClass[];
  /** Undefined if no class uses LVM, or another process uses it. */
  readonly lvmAbilities: (signal: AbortSignal) => Promise<LvmAbilities | undefined>;
  /** Why the pools are only in their last known state; undefined if they are current. */
  readonly outdated: () => string | undefined;
  readonly metrics: readonly Metric[];
  /** Its current problems, one sentence each. */
  readonly problems: () => readonly string[];
  /** Refuses new calls from other processes; running ones get this grace period. */
  stopServing(graceMs: number): Promise<void>;
  stop(): Promise<void>;
}

/** Runs the engine in this process, and serves it like lvmd. */
export async function embeddedEngine(options: NodeEngineOptions, signal: AbortSignal): Promise<NodeEngine> {
  const { lvmdSocket, onAnswered, clock, log } = options;
  await mustBeOnlyLvmd(lvmdSocket);
  const operations = operationLatency();
  const engine = await StorageEngine.start({ ...options, onDone: operations.observe }, signal);
  const { pools, allPools } = engine;
  const serving = serveLvmd({ socketPath: lvmdSocket, pools, onAnswered, clock, log });
  const server = await serving.catch(async (error: unknown) => {
    await engine.stop();
    throw error;
  });
  return {
    pools,
    allPools,
    serveGroups: (volumeGroups, signal) => engine.serveGroups(volumeGroups, signal),
    poolOfGroup: (volumeGroup) => poolOfGroup(allPools, engine.deviceClasses(), volumeGroup),
    annotations() {
      const free = new Map(pools.all().map((pool) => [pool.name, pool.capacity().freeBytes]));
      const configured = engine.deviceClasses().filter((deviceClass) => !isGroupClass(deviceClass));
      // An unavailable class has no free space.
      return capacityAnnotations(configured, (name) => free.get(name) ?? 0n);
    },
    deviceClasses: () => engine.deviceClasses(),
    lvmAbilities: (signal) => engine.lvmAbilities(signal),
    outdated: () => undefined,
    metrics: [configGauge(() => engine.configProblem), ...lvmMetrics(() => engine.lvmCounts), operations.metric],
    problems: () => engineProblems({ pools: allPools, slowest: engine.slowest }),
    stopServing: (graceMs) => server.stop(graceMs),
    stop: () => engine.stop(),
  };
}

/** Uses the engine of an lvmd in another process, which has its own configuration. */
export async function remoteEngine(options: NodeEngineOptions, signal: AbortSignal): Promise<NodeEngine> {
  const { lvmdSocket, clock, log } = options;
  const remote = await RemotePools.connect({ socketPath: lvmdSocket, clock, log, random: Math.random }, signal);
  const { pools } = remote;
  const outdated = () => (remote.isAway ? `no lvmd answers on ${lvmdSocket}; using its last known state` : undefined);
  return {
    pools,
    allPools: pools,
    serveGroups: async () => undefined,
    poolOfGroup: (volumeGroup) => poolOfGroup(pools, [], volumeGroup),
    annotations: () =>
      new Map(
        pools.all().map((pool) => {
          const key = pool.name ? `${capacityAnnotationPrefix}${pool.name}` : defaultCapacityAnnotation;
          return [key, String(pool.capacity().freeBytes)];
        }),
      ),
    deviceClasses: () => [],
    lvmAbilities: async () => undefined,
    outdated,
    metrics: [],
    problems: () => [outdated()].filter((problem) => problem !== undefined),
    stopServing: async () => undefined,
    stop: () => remote.stop(),
  };
}
