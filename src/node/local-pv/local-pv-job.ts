import { localPvAnnotations, localPvStatus } from '../../api/local-pv.ts';
import { metrics } from '../../api/names.ts';
import type { Clock } from '../../base/clock.ts';
import type { Run } from '../../base/exec.ts';
import type { Log } from '../../base/log.ts';
import { allZero } from '../../filesystem/all-zero.ts';
import { Mounts } from '../../filesystem/mounts.ts';
import { blkid } from '../../filesystem/probe.ts';
import { VolumeKeys } from '../../filesystem/volume-keys.ts';
import type { KubeClient } from '../../kube/client.ts';
import { Informer, withoutManagedFields } from '../../kube/informer.ts';
import { type PersistentVolume, persistentVolumes, secrets } from '../../kube/resource.ts';
import { gauge, type Metric } from '../../metrics/metric.ts';
import { EncryptedVolumes } from '../../volumes/encrypted-volumes.ts';
import type { JobAtWork, NodeJob } from '../node-job.ts';
import { defaultsIn } from './defaults-source.ts';
import type { StaticVolumePools } from './find-volume.ts';
import { sanityCheck } from './sanity-check.ts';
import { type ReadKeys, ShownVolumes } from './shown-volumes.ts';
import { StaticVolumeReconciler } from './static-volume-reconciler.ts';
import { staticVolumeWork } from './static-volume-work.ts';
import type { StoredPersistentVolume } from './static-volume-writer.ts';
import { agentMounts, systemdMounts } from './volume-mounts.ts';
import { VolumeSteps } from './volume-steps.ts';

export interface LocalPvOptions {
  /** The directory with the paths of all static volumes. */
  readonly mountBase: string;
  /** Who mounts: this agent, or units of the node's systemd that it writes. */
  readonly mounts: 'agent' | 'systemd';
  /** The name of the ConfigMap with defaults; empty for none. */
  readonly defaultsName: string;
  /** Of this agent, with the ConfigMap and the Secrets of encrypted volumes. */
  readonly namespace: string;
  /** Whether released volumes that allow it are emptied for the next claim. */
  readonly releases: boolean;
  /** Whether mount points that no PersistentVolume names are reported at the start. */
  readonly sanityChecks: boolean;
}

interface Collaborators {
  readonly client: KubeClient;
  readonly run: Run;
  readonly clock: Clock;
  readonly log: Log;
}

/** Only the static PersistentVolumes of this node. */
export type StaticVolumeWatch = Informer<PersistentVolume>;

interface LocalPvJob extends NodeJob {
  readonly volumes: StaticVolumeWatch;
  begin(pools: StaticVolumePools): Promise<JobAtWork>;
}

/** Static PersistentVolumes: their volumes, filesystems and mounts. */
export function localPvJob(nodeName: string, options: LocalPvOptions, collaborators: Collaborators): LocalPvJob {
  const { mountBase, namespace, releases } = options;
  const { client, clock, log } = collaborators;
  const volumes = new Informer({
    client,
    resource: persistentVolumes,
    project: (pv) => (isOf(nodeName, pv) ? withoutManagedFields(pv) : undefined), // a cluster may have very many others
    clock,
    log,
  });
  const defaults = defaultsIn({ name: options.defaultsName, namespace, client, clock, log });

  const begin = async (pools: StaticVolumePools): Promise<JobAtWork> => {
    const steps = volumeSteps(options, collaborators);
    const reconciler = new StaticVolumeReconciler({
      ...{ client, volumes, defaults, pools, steps, mountBase, releases, log },
    });
    return {
      work: [
        staticVolumeWork({ volumes, defaults, pools, reconciler }),
        ...(options.sanityChecks ? [sanityCheck({ client, mountBase, log })] : []),
      ],
      metrics: [statusMetric(nodeName, volumes)],
    };
  };
  const watches = { persistentvolumes: volumes, ...(defaults.watch && { defaults: defaults.watch }) };
  return { watches, begin, volumes };
}

function isOf(nodeName: string, { metadata }: StoredPersistentVolume): boolean {
  return metadata.annotations?.[localPvAnnotations.node] === nodeName;
}

function volumeSteps({ mounts, namespace }: LocalPvOptions, { client, run, log }: Collaborators): VolumeSteps {
  const byAgent = agentMounts(run);
  const readKeys: ReadKeys = async (name, signal) => {
    const secret = await client.get(secrets, name, { namespace, signal });
    return VolumeKeys.in(secret?.data ?? {}, 'base64');
  };
  const shown = new ShownVolumes({
    plain: mounts === 'systemd' ? systemdMounts(run) : byAgent,
    encrypted: byAgent,
    table: new Mounts({ run }),
    luks: EncryptedVolumes.create({ run, log }),
    readKeys,
  });
  return new VolumeSteps({ shown, probe: blkid(run), allZero: allZero(run), log });
}

function statusMetric(nodeName: string, volumes: Pick<StaticVolumeWatch, 'list'>): Metric {
  return gauge({
    name: metrics.staticVolumes,
    help: 'Static PersistentVolumes of this node, by status.',
    labelNames: ['node', 'status'],
    read: () => {
      const statuses = volumes.list().map(({ metadata }) => metadata.annotations?.[localPvAnnotations.status]);
      return Object.values(localPvStatus).map((status) => ({
        labels: { node: nodeName, status },
        value: statuses.filter((each) => each === status).length,
      }));
    },
  });
}
