import { join } from 'node:path';
import { logicalVolumes } from '../api/logical-volume.ts';
import { ioLimitsAnnotation } from '../api/names.ts';
import type { Clock } from '../base/clock.ts';
import type { Run } from '../base/exec.ts';
import { Listeners } from '../base/listeners.ts';
import type { Log } from '../base/log.ts';
import { identityService } from '../csi/identity-service.ts';
import { nodeService } from '../csi/node/node-service.ts';
import type { VolumeId } from '../engine/pool.ts';
import type { KubeClient } from '../kube/client.ts';
import { Informer } from '../kube/informer.ts';
import { nodes } from '../kube/resource.ts';
import { Identity, Node } from '../rpc/gen/csi/v1/csi_pb.ts';
import { Health } from '../rpc/gen/grpc/health/v1/health_pb.ts';
import { Registration } from '../rpc/gen/pluginregistration/v1/registration_pb.ts';
import { healthService } from '../rpc/health-service.ts';
import { type AnsweredCall, RpcServer } from '../rpc/server.ts';
import { EncryptedVolumes } from '../volumes/encrypted-volumes.ts';
import { EphemeralVolumes, type InlineLimits } from '../volumes/ephemeral-volumes.ts';
import { PublishedVolumes } from '../volumes/published-volumes.ts';
import { canLimitIo, cgroupRoot } from './io-limits/pod-cgroup.ts';
import { volumeLimits } from './io-limits/volume-limits.ts';
import { kubeletRegistration, registrationSocket } from './kubelet-registration.ts';
import type { StaticVolumeWatch } from './local-pv/local-pv-job.ts';
import { movesOfNode } from './moves/moves-of-node.ts';
import type { NodeEngine } from './node-engine.ts';
import type { JobAtWork, NodeJob, Stoppable } from './node-job.ts';
import { nodeFactsOf, nodePublisher } from './node-object/node-publisher.ts';
import { inspectMachine } from './node-storage/machine.ts';
import { nodeStorageWork } from './node-storage/node-storage-work.ts';
import { Orphans, orphanMetric, podsIn } from './node-storage/orphans.ts';
import { swapOf } from './node-storage/swap.ts';
import { filesystemErrors, type Preparation } from './reconcile/filesystem-errors.ts';
import { volumeWork } from './reconcile/logical-volume-reconciler.ts';
import { lostVolumes } from './reconcile/lost-volumes.ts';
import { unclaimedVolumes } from './reconcile/unclaimed-volumes.ts';

interface Options {
  readonly nodeName: string;
  readonly csiSocket: string;
  readonly kubeletDir: string;
  readonly inlineLimits: InlineLimits;
  readonly moveAddress: string;
  readonly moveHost: string;
  readonly version: string;
}

interface Collaborators {
  readonly client: KubeClient;
  /** Undefined if this agent does not know static volumes. */
  readonly staticVolumes: StaticVolumeWatch | undefined;
  readonly run: Run;
  readonly onAnswered: (call: AnsweredCall) => void;
  readonly clock: Clock;
  readonly log: Log;
}

/** CSI for the kubelet, this node's LogicalVolumes, and what it reports about itself. */
export function csiJob(options: Options, collaborators: Collaborators): NodeJob {
  const { nodeName, kubeletDir, version } = options;
  const { client, staticVolumes, run, onAnswered, clock, log } = collaborators;
  const volumes = new Informer({
    client,
    resource: logicalVolumes,
    fieldSelector: `spec.nodeName=${nodeName}`,
    clock,
    log,
  });
  const node = new Informer({
    client,
    resource: nodes,
    fieldSelector: `metadata.name=${nodeName}`,
    project: nodeFactsOf,
    clock,
    log,
  });
  const moves = options.moveHost === '' ? undefined : movesOfNode(options, { client, volumes, clock, log });

  const begin = async (engine: NodeEngine): Promise<JobAtWork> => {
    const { pools, lvmAbilities } = engine;
    const published = new Listeners<VolumeId>();
    const prepared = new Listeners<Preparation>();
    const givenBack = new Listeners<VolumeId>();
    const ioLimits = await canLimitIo(cgroupRoot);
    const abilities = ioLimits ? ([[ioLimitsAnnotation, 'true']] as const) : [];
    const wanted = () => new Map([...engine.annotations(), ...abilities]);
    const inspect = (signal: AbortSignal) => inspectMachine({ version, ioLimits, lvmAbilities, run }, signal);
    const orphans = new Orphans();
    const swap = () => swapOf('/');
    const podsDirectory = join(kubeletDir, 'pods');
    const pods = () => podsIn(podsDirectory);
    const ephemeral = new EphemeralVolumes({ pools, limits: options.inlineLimits, log });
    const onPublished = (id: VolumeId) => published.notify(id);
    const onPrepared = (volumeId: VolumeId, error?: unknown) => prepared.notify({ volumeId, error });
    const onGivenBack = (id: VolumeId) => givenBack.notify(id);
    const encrypted = EncryptedVolumes.create({ run, log });
    const publishedVolumes = PublishedVolumes.create({
      ...{ pools, ephemeral, encrypted, run, onPublished, onPrepared, onGivenBack },
    });
    const moving = moves?.begin({ pools, published: publishedVolumes, givenBack });

    const serve = async (onStarted: (part: Stoppable) => void, signal: AbortSignal) => {
      const csi = new RpcServer({ socketPath: options.csiSocket, onAnswered, clock, log })
        .add(Identity, identityService({ version, ready: () => true }))
        .add(
          Health,
          healthService(() => true),
        )
        .add(Node, nodeService({ nodeName, volumes: publishedVolumes }));
      await csi.listen();
      onStarted(csi);
      const registration = new RpcServer({ socketPath: registrationSocket(kubeletDir), clock, log }).add(
        Registration,
        kubeletRegistration(options.csiSocket, log),
      );
      await registration.listen();
      onStarted(registration);
      onStarted(ephemeral.removeLeftoversOnceServed(podsDirectory, signal));
    };

    return {
      work: [
        volumeWork({ client, volumes, pools, log }),
        unclaimedVolumes({ client, volumes, published: publishedVolumes, log }),
        lostVolumes({ nodeName, client, volumes, node, pools, log }),
        filesystemErrors({ client, volumes, prepared }),
        nodePublisher({ nodeName, client, node, pools, wanted, log }),
        nodeStorageWork({
          ...{
            nodeName,
            client,
            node,
            volumes,
            staticVolumes,
            pools,
            engine,
            orphans,
            pods,
            inspect,
            swap,
            clock,
            log,
          },
        }),
        volumeLimits({ volumes, pools, published, kubeletDir, cgroupRoot, log }),
        ...(moving?.work ?? []),
      ],
      metrics: [orphanMetric({ nodeName, orphans, volumes, pools })],
      serve,
      end: async () => moving?.end(),
    };
  };
  return { watches: { logicalvolumes: volumes, node, ...moves?.watches }, begin };
}
