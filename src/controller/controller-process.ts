import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { logicalVolumes } from '../api/logical-volume.ts';
import { driverName } from '../api/names.ts';
import { volumeMoves } from '../api/volume-move.ts';
import type { Clock } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import { type Work, Workers } from '../base/work.ts';
import { controllerService } from '../csi/controller/controller-service.ts';
import { identityService } from '../csi/identity-service.ts';
import type { KubeClient } from '../kube/client.ts';
import { Informer } from '../kube/informer.ts';
import { LeaderElection } from '../kube/leader-election.ts';
import {
  csiDrivers,
  csiNodes,
  csiStorageCapacities,
  nodes,
  persistentVolumeClaims,
  persistentVolumes,
  pods,
  storageClasses,
} from '../kube/resource.ts';
import { MetricsServer } from '../metrics/metrics-server.ts';
import { callLatency, processMetrics } from '../metrics/process-metrics.ts';
import { queueMetric, silentWatches, stuckQueues, watchMetrics } from '../metrics/progress.ts';
import { securedBy } from '../metrics/secured.ts';
import { Controller, Identity } from '../rpc/gen/csi/v1/csi_pb.ts';
import { Health } from '../rpc/gen/grpc/health/v1/health_pb.ts';
import { healthService } from '../rpc/health-service.ts';
import { RpcServer } from '../rpc/server.ts';
import { WebhookServer } from '../webhook/webhook-server.ts';
import { AnnotatedCapacities, annotatedNode } from './capacity/annotated-capacities.ts';
import { publishedCapacity } from './capacity/plan.ts';
import { registeredNode, scheduledClass, storageCapacities, trackingDriver } from './capacity/storage-capacities.ts';
import { heldClaims } from './claims/held-claims.ts';
import { ignoredClasses } from './claims/ignored-classes.ts';
import { VolumeClaims, watchedClaim } from './claims/volume-claims.ts';
import { volumeEvents } from './events/volume-events.ts';
import { isHeldByMove } from './moves/held-nodes.ts';
import { movesOfVolumes } from './moves/volume-moves.ts';
import { lateDecisions } from './node-removal/late-decisions.ts';
import { NodeRemoval, nodeRemovals } from './node-removal/node-removal.ts';
import { strandedPods, unscheduled, waitingPod } from './node-removal/stranded-pods.ts';
import { orphanMetric, ourPersistentVolume } from './orphaned-objects.ts';
import { refusedVolumes } from './refused-volumes.ts';
import { LogicalVolumeObjects } from './volumes/logical-volume-objects.ts';
import { LogicalVolumeSnapshots } from './volumes/logical-volume-snapshots.ts';
import { LogicalVolumeStore } from './volumes/logical-volume-store.ts';

export interface ControllerOptions {
  readonly csiSocket: string;
  readonly metricsAddress: string;
  readonly secureMetricsServer: boolean;
  readonly enableWebhooks: boolean;
  readonly webhookAddress: string;
  readonly certDir: string;
  readonly webhookService: string;
  /** Remove only the finalizer of deleted Nodes, and leave their claims, pods and LogicalVolumes. */
  readonly skipNodeFinalize: boolean;
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

/** The CSI controller. Runs until the signal aborts, then finishes what it has started and returns. */
export async function runController(
  options: ControllerOptions,
  collaborators: ControllerCollaborators,
  signal: AbortSignal,
): Promise<void> {
  const { client, clock, log } = collaborators;
  await using parts = new AsyncDisposableStack(); // stopped in reverse: first no new calls, last the watches

  const watches = controllerWatches(options, collaborators);
  const { logicalvolumes: volumes, nodes } = watches;
  for (const informer of Object.values(watches)) {
    parts.defer(() => informer.stop());
    informer.start();
  }
  const workers = new Workers(controllerWork(options, collaborators, watches), { clock, log, random: Math.random });

  const calls = callLatency();
  const { queues } = workers;
  const allMetrics = [
    ...watchMetrics(watches, clock),
    queueMetric(queues),
    orphanMetric({ volumes, persistentVolumes: watches.persistentvolumes, nodes }, clock),
    calls.metric,
    ...processMetrics(),
  ];
  const ready = () => volumes.synced && nodes.synced;
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

  const objects = new LogicalVolumeObjects({ client, watched: volumes });
  const csi = new RpcServer({ socketPath: options.csiSocket, onAnswered: calls.observe, clock, log })
    .add(Identity, identityService({ version: options.version, ready }))
    .add(Health, healthService(ready))
    .add(
      Controller,
      controllerService({
        volumes: new LogicalVolumeStore({ objects, clock }),
        snapshots: new LogicalVolumeSnapshots(objects),
        capacities: new AnnotatedCapacities(nodes),
        claims: new VolumeClaims({ client, watched: watches.persistentvolumeclaims }),
      }),
    );
  await csi.listen();
  parts.defer(() => csi.stop(graceMs));

  if (options.enableWebhooks) {
    const started = await WebhookServer.start(
      {
        address: options.webhookAddress,
        certDir: options.certDir,
        service: options.webhookService,
        identity: hostname(),
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

/** The controller's caches of cluster objects, by resource name, for metrics and health. */
function controllerWatches(options: ControllerOptions, collaborators: ControllerCollaborators) {
  const { leaderElectionNamespace: namespace, skipNodeFinalize } = options;
  return {
    ...(!skipNodeFinalize && {
      pods: new Informer({ ...collaborators, resource: pods, fieldSelector: unscheduled, project: waitingPod }),
    }),
    logicalvolumes: new Informer({ ...collaborators, resource: logicalVolumes }),
    volumemoves: new Informer({ ...collaborators, resource: volumeMoves }),
    nodes: new Informer({ ...collaborators, resource: nodes, project: annotatedNode }),
    persistentvolumeclaims: new Informer({ ...collaborators, resource: persistentVolumeClaims, project: watchedClaim }),
    persistentvolumes: new Informer({
      ...collaborators,
      resource: persistentVolumes,
      project: ourPersistentVolume,
    }),
    csinodes: new Informer({ ...collaborators, resource: csiNodes, project: registeredNode }),
    storageclasses: new Informer({ ...collaborators, resource: storageClasses, project: scheduledClass }),
    csidrivers: new Informer({
      ...collaborators,
      resource: csiDrivers,
      fieldSelector: `metadata.name=${driverName}`,
      project: trackingDriver,
    }),
    csistoragecapacities: new Informer({
      ...collaborators,
      resource: csiStorageCapacities,
      namespace,
      labelSelector: `csi.storage.k8s.io/drivername=${driverName}`,
      project: publishedCapacity,
    }),
  };
}

/** The reconcilers that only the leader runs. */
function controllerWork(
  options: ControllerOptions,
  { client, clock, log }: ControllerCollaborators,
  watches: ReturnType<typeof controllerWatches>,
): readonly Work[] {
  const { logicalvolumes: volumes, nodes, persistentvolumeclaims: claims, volumemoves: moves } = watches;
  const reporting = { client, reporter: { controller: driverName, instance: hostname() }, clock, log };
  const { skipNodeFinalize: keepObjects } = options;
  return [
    nodeRemovals({
      nodes,
      removal: new NodeRemoval({ ...reporting, keepObjects }),
      isHeld: (name) => moves.list().some((move) => isHeldByMove(name, move)),
    }),
    ...(keepObjects ? [] : [lateDecisions({ ...reporting, volumes, claims, nodes })]),
    ...(watches.pods ? [strandedPods({ ...reporting, pods: watches.pods, claims })] : []),
    refusedVolumes({ client, volumes, clock, log }),
    heldClaims({ client, claims, log }),
    volumeEvents({ ...reporting, volumes }),
    ignoredClasses({ ...reporting, claims, persistentVolumes: watches.persistentvolumes }),
    movesOfVolumes({ ...reporting, moves, claims, persistentVolumes: watches.persistentvolumes, volumes, nodes }),
    storageCapacities({
      namespace: options.leaderElectionNamespace,
      client,
      nodes,
      csiNodes: watches.csinodes,
      classes: watches.storageclasses,
      driver: watches.csidrivers,
      published: watches.csistoragecapacities,
      clock,
    }),
  ];
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
