import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import type { Clock } from '../base/clock.ts';
import { InvalidInput } from '../base/errors.ts';
import type { Run } from '../base/exec.ts';
import type { Log } from '../base/log.ts';
import { Workers } from '../base/work.ts';
import { parseStorageConfig } from '../engine/config/device-classes-yaml.ts';
import type { KubeClient } from '../kube/client.ts';
import type { Metric } from '../metrics/metric.ts';
import { MetricsServer } from '../metrics/metrics-server.ts';
import { callLatency, processMetrics } from '../metrics/process-metrics.ts';
import { queueMetric, silentWatches, stuckQueues, watchMetrics } from '../metrics/progress.ts';
import { securedBy } from '../metrics/secured.ts';
import type { InlineLimits } from '../volumes/ephemeral-volumes.ts';
import { capacityMetrics } from './capacity-metrics.ts';
import { csiJob } from './csi-job.ts';
import { AgentTurn } from './handover/agent-turn.ts';
import { type LocalPvOptions, localPvJob } from './local-pv/local-pv-job.ts';
import { mountRoot } from './local-pv/volume-path.ts';
import { embeddedEngine, remoteEngine } from './node-engine.ts';
import type { NodeJob, Stoppable } from './node-job.ts';
import { volumeMetrics } from './volume-metrics.ts';

export interface NodeOptions {
  readonly nodeName: string;
  /** Whether the agent serves CSI to the kubelet, and the objects that belong to it. */
  readonly csi: boolean;
  /** Agents of one node also meet next to it to take turns, with or without CSI. */
  readonly csiSocket: string;
  /** Undefined if the agent leaves static volumes alone. */
  readonly localPv: LocalPvOptions | undefined;
  /** Whether the storage engine runs in this process. */
  readonly embedLvmd: boolean;
  /** The socket of lvmd, served by this process or another one. */
  readonly lvmdSocket: string;
  readonly kubeletDir: string;
  /** Empty for no device classes. */
  readonly configFile: string;
  readonly inlineLimits: InlineLimits;
  /** Where volumes that move to other nodes are served. */
  readonly moveAddress: string;
  /** At which other agents reach that address. Empty: no moves. */
  readonly moveHost: string;
  readonly stateDirectory: string;
  readonly metricsAddress: string;
  readonly secureMetricsServer: boolean;
  readonly version: string;
}

export interface NodeCollaborators {
  readonly client: KubeClient;
  readonly run: Run;
  /** The environment of LVM commands. */
  readonly env: NodeJS.ProcessEnv;
  readonly clock: Clock;
  readonly log: Log;
}

/** How long running calls and steps may take when the process stops; the kubelet allows 30 s in total. */
const graceMs = 20_000;

/**
 * The agent of one node. Runs until the signal aborts, then finishes running work and returns. While another agent works
 * on the node, as during an upgrade, it waits as standby.
 */
export async function runNode(
  options: NodeOptions,
  collaborators: NodeCollaborators,
  signal: AbortSignal,
): Promise<void> {
  const { nodeName, kubeletDir } = options;
  const { run, env, clock, log } = collaborators;
  await using parts = new AsyncDisposableStack(); // stopped in reverse: first the work, then the engine, last the watches

  const calls = callLatency();
  const localPv = options.localPv && localPvJob(nodeName, options.localPv, collaborators);
  const staticVolumes = localPv?.volumes;
  const csi = options.csi && csiJob(options, { ...collaborators, staticVolumes, onAnswered: calls.observe });
  const jobs = [csi || [], localPv ?? []].flat();
  if (jobs.length === 0) throw new InvalidInput('there is nothing to do for this agent; pass --csi or --local-pv');
  const watches: NodeJob['watches'] = Object.assign({}, ...jobs.map((job) => job.watches));
  for (const watch of Object.values(watches)) parts.defer(() => watch.stop());
  const startWatches = () => {
    for (const watch of Object.values(watches)) watch.start();
  };

  let queues: Workers['queues'] = {}; // they do not wait for disks, so a restart can fix a stuck key
  let standsBy = false;
  let engineProblems = (): readonly string[] => (standsBy ? [] : ['the storage engine has not started yet']);
  const stuck = () => stuckQueues(queues).join('; ') || undefined;
  const unready = () =>
    [...silentWatches(watches, clock), ...stuckQueues(queues), ...engineProblems()].join('; ') || undefined;

  const allMetrics: Metric[] = [...watchMetrics(watches, clock), calls.metric, ...processMetrics()];
  const secured = options.secureMetricsServer ? await securedBy(collaborators) : undefined;
  const address = options.metricsAddress;
  const metrics = new MetricsServer({ address, metrics: allMetrics, unready, stuck, secured, log });
  parts.defer(() => metrics.stop());

  const turn = await AgentTurn.take(options.csiSocket, clock, signal);
  parts.defer(() => {
    log.info('stopped');
    turn.end();
  });
  standsBy = !turn.isFirst;
  // A standby that cannot start must not become ready, because an upgrade then stops the earlier agent.
  if (standsBy && options.embedLvmd && options.configFile)
    parseStorageConfig(await readFile(options.configFile, 'utf8'));
  await metrics.listen();
  if (standsBy) {
    startWatches();
    log.info('another agent serves this node; waiting as standby until it stops');
    await turn.comes(signal);
    standsBy = false;
    log.info('taking over');
  }

  const start = options.embedLvmd ? embeddedEngine : remoteEngine;
  const engine = await start({ ...options, run, env, onAnswered: calls.observe, clock, log }, signal);
  parts.defer(() => engine.stop());
  engineProblems = engine.problems;
  const atWorkJobs = await Promise.all(jobs.map((job) => job.begin(engine)));
  for (const job of atWorkJobs) parts.defer(() => job.end?.());
  // These stop at the same time: they share one grace period, and nothing new starts after it.
  const atWork: Stoppable[] = [{ stop: (graceMs) => engine.stopServing(graceMs) }];
  parts.defer(async () => void (await Promise.all(atWork.map((part) => part.stop(graceMs)))));

  const workers = new Workers(
    atWorkJobs.flatMap(({ work }) => work),
    { clock, log, random: Math.random },
  );
  workers.start();
  atWork.push(workers);
  const { 'io-limits': _, ...waitAside } = workers.queues;
  queues = waitAside;

  allMetrics.push(
    ...capacityMetrics(nodeName, engine.allPools),
    ...volumeMetrics({ nodeName, pools: engine.allPools, directories: [kubeletDir, mountRoot], clock }),
    ...atWorkJobs.flatMap(({ metrics }) => metrics),
    ...engine.metrics,
    queueMetric(workers.queues),
  );

  for (const job of atWorkJobs) await job.serve?.((part) => atWork.push(part), signal);
  startWatches();
  if (!signal.aborted) await once(signal, 'abort');
  log.info('stopping');
}
