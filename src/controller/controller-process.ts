import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { driverName } from '../api/names.ts';
import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import { type Work, Workers } from '../base/work.ts';
import { controllerService } from '../csi/controller/controller-service.ts';
import { identityService } from '../csi/identity-service.ts';
import type { Answer } from '../http/json-server.ts';
import type { KubeClient } from '../kube/client.ts';
import { LeaderElection } from '../kube/leader-election.ts';
import { noDefaults } from '../local-pv/defaults.ts';
import { LiveDefaults } from '../local-pv/live-defaults.ts';
import { MetricsServer } from '../metrics/metrics-server.ts';
import { callLatency, processMetrics } from '../metrics/process-metrics.ts';
import { queueMetric, silentWatches, stuckQueues, watchMetrics } from '../metrics/progress.ts';
import { securedBy } from '../metrics/secured.ts';
import { Controller, Identity } from '../rpc/gen/csi/v1/csi_pb.ts';
import { Health } from '../rpc/gen/grpc/health/v1/health_pb.ts';
import { healthService } from '../rpc/health-service.ts';
import { RpcServer } from '../rpc/server.ts';
import { changeWebhook } from '../webhook/change-webhook.ts';
import { snapshotClassWebhook, storageClassWebhook } from '../webhook/class-webhook.ts';
import { PodWebhook } from '../webhook/pod-webhook.ts';
import { WebhookServer } from '../webhook/webhook-server.ts';
import { AnnotatedCapacities } from './capacity/annotated-capacities.ts';
import { startupTaints } from './capacity/startup-taints.ts';
import { storageCapacities } from './capacity/storage-capacities.ts';
import { ClaimUsers } from './claims/claim-users.ts';
import { heldClaims } from './claims/held-claims.ts';
import { ignoredClasses } from './claims/ignored-classes.ts';
import { invalidPolicyEvents } from './claims/invalid-policies.ts';
import { VolumeClaims } from './claims/volume-claims.ts';
import { droppedVolumes, evictedPods } from './drain/dropped-volumes.ts';
import { endedDrains } from './drain/ended-drains.ts';
import { EvictionWebhook } from './drain/eviction-webhook.ts';
import { volumeEvents } from './events/volume-events.ts';
import { waitingPods } from './explain/waiting-pods.ts';
import { defaultsEvents, staticVolumeEvents } from './local-pv/static-volume-events.ts';
import { staticVolumes } from './local-pv/static-volumes.ts';
import { isHeldByMove } from './moves/held-nodes.ts';
import { movesOfVolumes } from './moves/volume-moves.ts';
import { lateDecisions } from './node-removal/late-decisions.ts';
import { lateStaticDecisions } from './node-removal/late-static-decisions.ts';
import { NodeRemoval, nodeRemovals } from './node-removal/node-removal.ts';
import { strandedPods } from './node-removal/stranded-pods.ts';
import { orphanMetric } from './orphaned-objects.ts';
import { refusedVolumes } from './refused-volumes.ts';
import { reservedRoom } from './reserve/reserved-room.ts';
import { scaledClaims } from './tombstones/scaled-claims.ts';
import { tombstones } from './tombstones/tombstones.ts';
import { unclaimedVolumes } from './unclaimed/unclaimed-volumes.ts';
import { CrossNodeCopies } from './volumes/cross-node-copies.ts';
import { LogicalVolumeObjects } from './volumes/logical-volume-objects.ts';
import { LogicalVolumeSnapshots } from './volumes/logical-volume-snapshots.ts';
import { LogicalVolumeStore } from './volumes/logical-volume-store.ts';
import { csiWatches, defaultsWatch, sharedWatches } from './watches.ts';

export interface ControllerOptions {
  /** Whether to serve CSI, and to run the reconcilers that it needs. */
  readonly csi: boolean;
  readonly csiSocket: string;
  /** Whether to serve static volumes. */
  readonly localPv: boolean;
  readonly localPvMountBase: string;
  /** The ConfigMap with the defaults for static volumes, in the namespace of the leader election; empty for none. */
  readonly localPvDefaults: string;
  readonly metricsAddress: string;
  readonly secureMetricsServer: boolean;
  readonly enableWebhooks: boolean;
  /** Whether to answer about evictions, too. */
  readonly evictionWebhook: boolean;
  readonly webhookAddress: string;
  readonly certDir: string;
  readonly webhookService: string;
  /** Remove only the finalizer of deleted Nodes, and leave their claims, pods and LogicalVolumes. */
  readonly skipNodeFinalize: boolean;
  /** Free bytes of a node that an autoscaler would add, by device class, `00default` for the default one. */
  readonly freshNodeCapacity: ReadonlyMap<string, bigint>;
  /** Key of the taint to remove from nodes whose free space is published; empty for none. */
  readonly startupTaint: string;
  readonly leaderElection: boolean;
  readonly leaderElectionId: string;
  readonly leaderElectionNamespace: string;
  readonly leaseDurationMs: number;
  readonly renewDeadlineMs: number;
  readonly retryPeriodMs: number;
  readonly version: string;
}

export interface ControllerCollaborators {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Log;
}

/** Time for calls in progress to finish when the process stops; the kubelet allows 30 s in total. */
const graceMs = 20_000;

/** The controller of the cluster. Runs until the signal aborts, then finishes what it has started and returns. */
export async function runController(
  options: ControllerOptions,
  collaborators: ControllerCollaborators,
  signal: AbortSignal,
): Promise<void> {
  const { client, clock, log } = collaborators;
  await using parts = new AsyncDisposableStack(); // stopped in reverse: first no new calls, last the watches

  const shared = { ...sharedWatches(options, collaborators), ...defaultsWatch(options, collaborators) };
  const csi = options.csi ? { ...shared, ...csiWatches(options, collaborators) } : undefined;
  const watches = csi ?? shared;
  for (const informer of Object.values(watches)) {
    parts.defer(() => informer.stop());
    informer.start();
  }
  const evictions = csi && options.evictionWebhook ? evictionWebhookOf(collaborators, csi) : undefined;
  const work = [
    ...(csi ? csiWork(options, collaborators, csi) : []),
    ...(evictions ? [evictions.work] : []),
    ...(options.localPv ? localPvWork(options, collaborators, shared) : []),
  ];
  const workers = new Workers(work, { clock, log, random: Math.random });

  workers.start();
  parts.defer(() => workers.stop(graceMs));

  const calls = callLatency();
  const { queues } = workers;
  const volumes = csi?.logicalvolumes ?? { list: () => [], synced: true };
  const allMetrics = [
    ...watchMetrics(watches, clock),
    queueMetric(queues),
    orphanMetric({ volumes, persistentVolumes: shared.persistentvolumes, nodes: shared.nodes }, clock),
    calls.metric,
    ...processMetrics(),
  ];
  let webhooks: WebhookServer | undefined;
  const unready = () => {
    if (signal.aborted) return 'this process is stopping';
    const problems = [...silentWatches(watches, clock), ...stuckQueues(queues)];
    if (problems.length > 0) return problems.join('; ');
    return options.enableWebhooks && !webhooks ? 'webhooks are not served yet' : webhooks?.unready();
  };
  const stuck = () => stuckQueues(queues).join('; ') || undefined;
  const secured = options.secureMetricsServer ? await securedBy(collaborators) : undefined;
  const address = options.metricsAddress;
  const metrics = new MetricsServer({ address, metrics: allMetrics, unready, stuck, secured, log });
  await metrics.listen();
  parts.defer(() => metrics.stop());

  if (csi) {
    const server = csiServer(options, collaborators, csi, calls.observe);
    await server.listen();
    parts.defer(() => server.stop(graceMs));
  }

  if (options.enableWebhooks) {
    const started = await WebhookServer.start(
      {
        address: options.webhookAddress,
        certDir: options.certDir,
        service: options.webhookService,
        identity: hostname(),
        answers: webhooksOf(collaborators, shared, evictions),
      },
      { client, clock, log, random: Math.random },
    );
    webhooks = started;
    parts.defer(() => started.stop());
  }

  const lead = (term: AbortSignal) => workers.lead(term);
  if (options.leaderElection) await elections(options, collaborators).run(lead, signal);
  else await lead(signal);
  log.info('stopping');
}

/** The admission webhooks, by path; every replica answers. Which of them are called is up to their configurations. */
function webhooksOf(
  collaborators: ControllerCollaborators,
  { nodes }: SharedWatches,
  evictions: EvictionWebhook | undefined,
): Readonly<Record<string, Answer>> {
  return {
    '/pod/mutate': new PodWebhook(collaborators).mutate,
    '/storageclass/validate': storageClassWebhook(() => new AnnotatedCapacities(nodes).deviceClasses()),
    '/volumesnapshotclass/validate': snapshotClassWebhook(),
    '/workload/validate': changeWebhook(collaborators),
    ...(evictions && { '/eviction/validate': evictions.validate }),
  };
}

function evictionWebhookOf(
  collaborators: ControllerCollaborators,
  {
    runningpods: pods,
    nodes,
    persistentvolumeclaims: claims,
    persistentvolumes: persistentVolumes,
    volumemoves: moves,
  }: CsiWatches,
): EvictionWebhook {
  return new EvictionWebhook({ ...collaborators, pods, nodes, claims, persistentVolumes, moves });
}

type SharedWatches = ReturnType<typeof sharedWatches> & ReturnType<typeof defaultsWatch>;
type CsiWatches = SharedWatches & ReturnType<typeof csiWatches>;

/** Served by every replica. */
function csiServer(
  { csiSocket, version }: ControllerOptions,
  { client, clock, log }: ControllerCollaborators,
  { logicalvolumes: volumes, volumemoves: moves, nodes, persistentvolumeclaims }: CsiWatches,
  onAnswered: ReturnType<typeof callLatency>['observe'],
): RpcServer {
  const ready = () => volumes.synced && nodes.synced;
  const objects = new LogicalVolumeObjects({ client, watched: volumes });
  return new RpcServer({ socketPath: csiSocket, onAnswered, clock, log })
    .add(Identity, identityService({ version, ready }))
    .add(Health, healthService(ready))
    .add(
      Controller,
      controllerService({
        volumes: new LogicalVolumeStore({ objects, copies: new CrossNodeCopies({ client, objects, moves }), clock }),
        snapshots: new LogicalVolumeSnapshots(objects),
        capacities: new AnnotatedCapacities(nodes),
        claims: new VolumeClaims({ client, watched: persistentvolumeclaims }),
      }),
    );
}

/** The reconcilers that CSI needs; only the leader runs them. */
function csiWork(
  {
    skipNodeFinalize: keepObjects,
    leaderElectionNamespace,
    localPv,
    evictionWebhook,
    freshNodeCapacity,
    startupTaint,
  }: ControllerOptions,
  collaborators: ControllerCollaborators,
  watches: CsiWatches,
): readonly Work[] {
  const { client, clock, log } = collaborators;
  const {
    logicalvolumes: volumes,
    volumemoves: moves,
    nodes,
    persistentvolumeclaims: claims,
    persistentvolumes: persistentVolumes,
    pods: waiting,
    statefulsets: sets,
  } = watches;
  const reporting = reportingOf(collaborators);
  const users = new ClaimUsers({ client, running: watches.runningpods, waiting });
  return [
    nodeRemovals({
      nodes,
      removal: new NodeRemoval({ ...reporting, keepObjects }),
      isHeld: (name) => moves.list().some((move) => isHeldByMove(name, move)),
    }),
    ...(keepObjects ? [] : [lateDecisions({ ...reporting, volumes, claims, nodes })]),
    ...(localPv && !keepObjects ? [lateStaticDecisions({ ...reporting, persistentVolumes, claims, nodes })] : []),
    ...(sets
      ? [
          strandedPods({ ...reporting, pods: waiting, claims, persistentVolumes }),
          tombstones({ ...reporting, claims, moves, sets }),
          scaledClaims({ ...reporting, claims, persistentVolumes, users, sets }),
          ...(evictionWebhook ? [evictedPods({ client, pods: watches.runningpods, clock, log })] : []),
          droppedVolumes({ client, claims, clock }),
        ]
      : []),
    waitingPods({
      ...reporting,
      pods: waiting,
      volumes,
      moves,
      csiNodes: watches.csinodes,
      published: watches.csistoragecapacities,
    }),
    reservedRoom({
      ...reporting,
      namespace: leaderElectionNamespace,
      claims,
      users,
      placeholders: watches.placeholders,
      nodes,
      moves,
      driver: watches.csidrivers,
      scheduler: watches.scheduler,
    }),
    refusedVolumes({ client, volumes, clock, log }),
    unclaimedVolumes({ client, volumes, persistentVolumes, clock, log }),
    heldClaims({ client, claims, log }),
    volumeEvents({ ...reporting, volumes }),
    ignoredClasses({ ...reporting, claims, persistentVolumes }),
    movesOfVolumes({ ...reporting, moves, claims, users, persistentVolumes, volumes, nodes }),
    endedDrains({ client, nodes, claims, log }),
    invalidPolicyEvents({ ...reporting, claims }),
    storageCapacities({
      namespace: leaderElectionNamespace,
      client,
      nodes,
      csiNodes: watches.csinodes,
      classes: watches.storageclasses,
      driver: watches.csidrivers,
      published: watches.csistoragecapacities,
      freshNode: freshNodeCapacity,
      clock,
    }),
    ...(startupTaint === ''
      ? []
      : [startupTaints({ taint: startupTaint, client, nodes, published: watches.csistoragecapacities, log })]),
  ];
}

/** The reconcilers of static volumes; only the leader runs them. */
function localPvWork(
  { localPvMountBase: mountBase, localPvDefaults }: ControllerOptions,
  collaborators: ControllerCollaborators,
  { nodes, persistentvolumes: volumes, configmaps: configMap }: SharedWatches,
): readonly Work[] {
  const reporting = reportingOf(collaborators);
  const defaults = configMap ? new LiveDefaults(localPvDefaults, configMap) : { get: () => noDefaults };
  return [
    staticVolumes({ ...reporting, volumes, nodes, configMap, defaults, mountBase }),
    staticVolumeEvents({ ...reporting, volumes, defaults, mountBase }),
    ...(configMap ? [defaultsEvents(configMap, reporting)] : []),
  ];
}

function reportingOf({ client, clock, log }: ControllerCollaborators) {
  return { client, reporter: { controller: driverName, instance: hostname() }, clock, log };
}

/** Uses TopoLVM's Lease, so that a TopoLVM controller in the same namespace and Moorage never both lead. */
function elections(options: ControllerOptions, collaborators: ControllerCollaborators): LeaderElection {
  return new LeaderElection({
    ...collaborators,
    namespace: options.leaderElectionNamespace,
    name: options.leaderElectionId,
    identity: `${hostname()}_${randomUUID()}`,
    timing: options,
  });
}
