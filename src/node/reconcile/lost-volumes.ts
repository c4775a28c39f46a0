import { deleting, type LogicalVolume, logicalVolumes, type StoredLogicalVolume } from '../../api/logical-volume.ts';
import { nodeRemovedAnnotation, pendingDeletionAnnotation } from '../../api/names.ts';
import { Requeue } from '../../base/keyed-queue.ts';
import type { Log } from '../../base/log.ts';
import type { Work, WorkQueue } from '../../base/work.ts';
import { type Pools, poolHolding } from '../../engine/pools.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Informer } from '../../kube/informer.ts';
import type { Node } from '../../kube/resource.ts';
import { classOf } from '../../volumes/pool-holding.ts';
import type { NodeFacts } from '../node-object/node-publisher.ts';

interface Collaborators {
  readonly nodeName: string;
  readonly client: Pick<KubeClient, 'patch'>;
  /** Only the LogicalVolumes of this node. */
  readonly volumes: Pick<Informer<LogicalVolume>, 'get' | 'list' | 'onChange'>;
  /** This node's own Node object. */
  readonly node: Pick<Informer<Node, NodeFacts>, 'get' | 'onChange'>;
  readonly pools: Pick<Pools, 'all' | 'unavailable' | 'onChange'>;
  readonly log: Log;
}

/** A volume group that is being read or replaced settles first. */
const settleMs = 2000;

/**
 * Reports volumes that are not on this machine's disks, although a node of this name has created them: the machine or a
 * disk was replaced. Nothing is created in their place. If the disks return, the report is withdrawn.
 */
export function lostVolumes({ nodeName, client, volumes, node, pools, log }: Collaborators): Work {
  const newsOf = (volume: StoredLogicalVolume) => sighting(volume, pools, uidOf(node.get(nodeName)));
  const watch = (queue: WorkQueue) => {
    const look = (volume: StoredLogicalVolume) => {
      if (newsOf(volume) !== 'nothing') queue.addAfter(volume.metadata.name, settleMs);
    };
    const lookAtAll = () => volumes.list().forEach(look);
    return [
      volumes.onChange(({ kind, object }) => kind !== 'deleted' && look(object)),
      pools.onChange(lookAtAll),
      node.onChange(lookAtAll),
    ];
  };

  const report = async (volume: StoredLogicalVolume, nodeUid: string, signal: AbortSignal): Promise<void> => {
    const { name, uid } = volume.metadata;
    const message =
      `volume ${volume.status?.volumeID} is not on the disks of node ${nodeName}: the machine or its disks were replaced, ` +
      'or its device class was removed from the configuration';
    const body = [
      { op: 'test', path: '/metadata/uid', value: uid },
      { op: 'add', path: '/status/missingFrom', value: nodeUid },
      { op: 'add', path: '/status/message', value: message },
    ] as const;
    await client.patch(logicalVolumes, name, { type: 'json', body }, { subresource: 'status', signal });
    log.error({ name, volume: volume.status?.volumeID }, message);
  };

  const withdraw = async ({ metadata, status }: StoredLogicalVolume, signal: AbortSignal): Promise<void> => {
    const { name, uid, annotations } = metadata;
    if (status?.missingFrom) {
      const body = { metadata: { uid }, status: { missingFrom: null, message: '' } };
      await client.patch(logicalVolumes, name, { type: 'merge', body }, { subresource: 'status', signal });
    }
    if (annotations?.[nodeRemovedAnnotation]) {
      const body = { metadata: { uid, annotations: { [nodeRemovedAnnotation]: null } } };
      await client.patch(logicalVolumes, name, { type: 'merge', body }, { signal });
    }
    log.info({ name, volume: status?.volumeID }, 'the volume is on the disks of this node again');
  };

  const reconcile = async (name: string, signal: AbortSignal): Promise<Requeue> => {
    const volume = volumes.get(name);
    const nodeUid = uidOf(node.get(nodeName));
    const news = volume ? newsOf(volume) : 'nothing';
    if (volume && nodeUid && news === 'lost') await report(volume, nodeUid, signal);
    if (volume && news === 'found') await withdraw(volume, signal);
    return Requeue.never;
  };
  return { name: 'lost-volumes', watch, reconcile, concurrency: 4 };
}

/** What the disks say about a volume that its object does not say yet. */
export type Sighting = 'lost' | 'found' | 'nothing';

/** `nodeUid` is undefined while the Node does not exist or is being deleted: then the volumes are not this machine's business. */
export function sighting(
  volume: StoredLogicalVolume,
  pools: Pick<Pools, 'all' | 'unavailable'>,
  nodeUid: string | undefined,
): Sighting {
  const { metadata, status } = volume;
  const isReleased = metadata.annotations?.[pendingDeletionAnnotation] === 'true';
  if (nodeUid === undefined || !status?.volumeID || deleting(volume) || isReleased) return 'nothing';
  if (poolHolding(pools, status.volumeID)) {
    const removedUid = metadata.annotations?.[nodeRemovedAnnotation];
    return status.missingFrom || (removedUid && removedUid !== nodeUid) ? 'found' : 'nothing';
  }
  return status.missingFrom === nodeUid || mayBeHidden(volume, pools) ? 'nothing' : 'lost';
}

/** A class that is not served, now or any more, may still have the volume. */
function mayBeHidden(volume: StoredLogicalVolume, pools: Pick<Pools, 'all' | 'unavailable'>): boolean {
  const served = pools.all();
  const deviceClass = classOf(volume);
  const isServed = deviceClass === '' ? served.length > 0 : served.some(({ name }) => name === deviceClass);
  return !isServed || pools.unavailable().size > 0;
}

function uidOf(node: NodeFacts | undefined): string | undefined {
  return node && !node.deleting ? node.uid : undefined;
}
