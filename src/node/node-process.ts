import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { logicalVolumes } from '../api/logical-volume.ts';
import { ioLimitsAnnotation } from '../api/names.ts';
import { volumeMoves } from '../api/volume-move.ts';
import type { Clock } from '../base/clock.ts';
import type { Run } from '../base/exec.ts';
import { Listeners } from '../base/listeners.ts';
import type { Log } from '../base/log.ts';
import { Workers } from '../base/work.ts';
import { identityService } from '../csi/identity-service.ts';
import { nodeService } from '../csi/node/node-service.ts';
import { parseStorageConfig } from '../engine/config/device-classes-yaml.ts';
import type { VolumeId } from '../engine/pool.ts';
import { parseAddress } from '../http/address.ts';
import type { KubeClient } from '../kube/client.ts';
import { Informer } from '../kube/informer.ts';
import { nodes } from '../kube/resource.ts';
import type { Metric } from '../metrics/metric.ts';
import { MetricsServer } from '../metrics/metrics-server.ts';
import { callLatency, processMetrics } from '../metrics/process-metrics.ts';
import { queueMetric, silentWatches, stuckQueues, watchMetrics } from '../metrics/progress.ts';
import { securedBy } from '../metrics/secured.ts';
import { Identity, Node } from '../rpc/gen/csi/v1/csi_pb.ts';
import { Health } from '../rpc/gen/grpc/health/v1/health_pb.ts';
import { Registration } from '../rpc/gen/pluginregistration/v1/registration_pb.ts';
import { healthService } from '../rpc/health-service.ts';
import { RpcServer } from '../rpc/server.ts';
import { EncryptedVolumes } from '../volumes/encrypted-volumes.ts';
import { EphemeralVolumes, type InlineLimits } from '../volumes/ephemeral-volumes.ts';
import { PublishedVolumes } from '../volumes/published-volumes.ts';
import { capacityMetrics } from './capacity-metrics.ts';
import { AgentTurn } from './handover/agent-turn.ts';
import { canLimitIo, cgroupRoot } from './io-limits/pod-cgroup.ts';
import { volumeLimits } from './io-limits/volume-limits.ts';
import { kubeletRegistration, registrationSocket } from './kubelet-registration.ts';
import { AgentCopying } from './moves/agent-copying.ts';
import { movesFrom } from './moves/source-side.ts';
import { movesTo } from './moves/target-side.ts';
import { embeddedEngine, remoteEngine } from './node-engine.ts';
import { nodeFactsOf, nodePublisher } from './node-object/node-publisher.ts';
import { inspectMachine } from './node-storage/machine.ts';
import { nodeStorageWork } from './node-storage/node-storage-work.ts';
import { Orphans, orphanMetric, podsIn } from './node-storage/orphans.ts';
import { filesystemErrors, type Preparation } from './reconcile/filesystem-errors.ts';
import { volumeWork } from './reconcile/logical-volume-reconciler.ts';
import { lostVolumes } from './reconcile/lost-volumes.ts';
import { unclaimedVolumes } from './reconcile/unclaimed-volumes.ts';
import { volumeMetrics } from './volume-metrics.ts';

export interface NodeOptions {
  readonly nodeName: string;
  readonly csiSocket: string;
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

interface Stoppable {
  stop(graceMs: number): Promise<void>;
}

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
  const { client, run, env, clock, log } = collaborators;
  await using parts = new AsyncDisposableStack(); // stopped in reverse: first the work, then the engine, last the watches

  const volumes = new Informer({
    client,
    resource: logicalVolumes,
    fieldSelector: `spec.nodeName=${nodeName}`,
    clock,
    log,
  });
  parts.defer(() => volumes.stop());
  const node = new Informer({
    client,
    resource: nodes,
    fieldSelector: `metadata.name=${nodeName}`,
    project: nodeFactsOf,
    clock,
    log,
  });
  parts.defer(() => node.stop());

  const watches = { logicalvolumes: volumes, node };
  let queues: Workers['queues'] = {}; // they do not wait for disks, so a restart can fix a stuck key
  let standsBy = false;
  let engineProblems = (): readonly string[] => (standsBy ? [] : ['the storage engine has not started yet']);
  const stuck = () => stuckQueues(queues).join('; ') || undefined;
  const unready = () =>
    [...silentWatches(watches, clock), ...stuckQueues(queues), ...engineProblems()].join('; ') || undefined;

  const calls = callLatency();
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
    volumes.start();
    node.start();
    log.info('another agent serves this node; waiting as standby until it stops');
    await turn.comes(signal);
    standsBy = false;
    log.info('taking over');
  }

  const start = options.embedLvmd ? embeddedEngine : remoteEngine;
  const engine = await start({ ...options, run, env, onAnswered: calls.observe, clock, log }, signal);
  parts.defer(() => engine.stop());
  engineProblems = engine.problems;
  const { pools } = engine;

  const published = new Listeners<VolumeId>();
  const prepared = new Listeners<Preparation>();
  const givenBack = new Listeners<VolumeId>();
  const ephemeral = new EphemeralVolumes({ pools, limits: options.inlineLimits, log });
  const onGivenBack = (id: VolumeId) => givenBack.notify(id);
  const onPublished = (id: VolumeId) => published.notify(id);
  const onPrepared = (volumeId: VolumeId, error?: unknown) => prepared.notify({ volumeId, error });
  const encrypted = EncryptedVolumes.create({ run, log });
  const listeners = { onPublished, onPrepared, onGivenBack };
  const publishedVolumes = PublishedVolumes.create({ pools, ephemeral, encrypted, run, ...listeners });

  const { port } = parseAddress(options.moveAddress);
  const close = (id: VolumeId, signal: AbortSignal) => publishedVolumes.close(id, signal);
  const copying = new AgentCopying({ pools, close, host: options.moveHost, port, clock, log });
  parts.defer(() => copying.stop());
  const common = { client, volumes, movable: copying, copying, clock, log };
  const movesHere = options.moveHost === '' ? undefined : movesOf(nodeName, collaborators);
  for (const each of Object.values(movesHere ?? {})) parts.defer(() => each.stop());

  // These stop at the same time: they share one grace period, and nothing new starts after it.
  const atWork: Stoppable[] = [{ stop: (graceMs) => engine.stopServing(graceMs) }];
  parts.defer(async () => void (await Promise.all(atWork.map((part) => part.stop(graceMs)))));

  const ioLimits = await canLimitIo(cgroupRoot);
  const abilities = ioLimits ? ([[ioLimitsAnnotation, 'true']] as const) : [];
  const wanted = () => new Map([...engine.annotations(), ...abilities]);
  const { lvmAbilities } = engine;
  const inspect = (signal: AbortSignal) =>
    inspectMachine({ version: options.version, ioLimits, lvmAbilities, run }, signal);
  const orphans = new Orphans();
  const podsDirectory = join(kubeletDir, 'pods');
  const pods = () => podsIn(podsDirectory);
  const workers = new Workers(
    [
      ...(movesHere
        ? [movesFrom({ ...common, moves: movesHere.from, givenBack }), movesTo({ ...common, moves: movesHere.to })]
        : []),
      volumeWork({ client, volumes, pools, log }),
      unclaimedVolumes({ client, volumes, published: publishedVolumes, log }),
      lostVolumes({ nodeName, client, volumes, node, pools, log }),
      filesystemErrors({ client, volumes, prepared }),
      nodePublisher({ nodeName, client, node, pools, wanted, log }),
      nodeStorageWork({ nodeName, client, node, volumes, pools, engine, orphans, pods, inspect, clock, log }),
      volumeLimits({ volumes, pools, published, kubeletDir, cgroupRoot, log }),
    ],
    { clock, log, random: Math.random },
  );
  workers.start();
  atWork.push(workers);
  const { 'io-limits': _, ...waitAside } = workers.queues;
  queues = waitAside;

  allMetrics.push(
    ...capacityMetrics(nodeName, engine.allPools),
    ...volumeMetrics({ nodeName, pools: engine.allPools, kubeletDir, clock }),
    orphanMetric({ nodeName, orphans, volumes, pools }),
    ...engine.metrics,
    queueMetric(workers.queues),
  );

  const csi = new RpcServer({ socketPath: options.csiSocket, onAnswered: calls.observe, clock, log })
    .add(Identity, identityService({ version: options.version, ready: () => true }))
    .add(
      Health,
      healthService(() => true),
    )
    .add(Node, nodeService({ nodeName, volumes: publishedVolumes }));
  await csi.listen();
  atWork.push(csi);

  const registration = new RpcServer({ socketPath: registrationSocket(kubeletDir), clock, log }).add(
    Registration,
    kubeletRegistration(options.csiSocket, log),
  );
  await registration.listen();
  atWork.push(registration);

  atWork.push(ephemeral.removeLeftoversOnceServed(podsDirectory, signal));
  volumes.start();
  node.start();
  for (const each of Object.values(movesHere ?? {})) each.start();
  if (!signal.aborted) await once(signal, 'abort');
  log.info('stopping');
}

/** The moves from and to this node. An API server cannot select both at once. */
function movesOf(nodeName: string, { client, clock, log }: NodeCollaborators) {
  const of = (field: string) =>
    new Informer({ client, resource: volumeMoves, fieldSelector: `${field}=${nodeName}`, clock, log });
  return { from: of('status.sourceNode'), to: of('status.targetNode') };
}
