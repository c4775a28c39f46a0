import { bytesOf, type StoredLogicalVolume } from '../../api/logical-volume.ts';
import { tombstone } from '../../api/names.ts';
import { systemClock } from '../../base/clock.ts';
import { MoorageError } from '../../base/errors.ts';
import { formatBytes } from '../../base/quantity.ts';
import type { KubeClient } from '../../kube/client.ts';
import { Informer } from '../../kube/informer.ts';
import {
  type Node,
  nodes,
  type PersistentVolume,
  type PersistentVolumeClaim,
  type Pod,
  persistentVolumeClaims,
  persistentVolumes,
  type Stored,
  statefulSets,
} from '../../kube/resource.ts';
import { claimingSet, ordinalOf } from '../../kube/stateful-set.ts';
import { noLog } from '../connect.ts';
import { nodeOf } from '../facts.ts';
import { staticVolumeFacts } from '../static-volumes.ts';
import { age } from '../terminal.ts';
import { readVolume } from '../volume.ts';
import type { Manifest } from './writes.ts';

/** A claim, and what is lost with its volume. */
export interface Droppable {
  readonly claim: Stored<PersistentVolumeClaim>;
  readonly volume: Stored<PersistentVolume>;
  /** Static volumes have none. */
  readonly object: StoredLogicalVolume | undefined;
  readonly nodeName: string;
  /** Undefined if it is not in the cluster. */
  readonly node: Stored<Node> | undefined;
  readonly pods: readonly Stored<Pod>[];
  /** Whether its owner creates the claim again. */
  readonly isRecreated: boolean;
}

export async function droppable(
  client: KubeClient,
  namespace: string,
  name: string,
  signal: AbortSignal,
): Promise<Droppable> {
  const found = await readVolume(client, `pvc/${name}`, namespace, signal);
  const { claim, persistentVolume: volume, volume: object, pods } = found;
  if (!claim || !volume)
    throw new CannotDrop(`claim ${namespace}/${name} has no volume, so there is nothing to give up`);
  const nodeName = nodeOf(volume) ?? object?.spec.nodeName ?? staticVolumeFacts(volume)?.node ?? '';
  const { items: sets } = await client.list(statefulSets, { namespace, project: claimingSet, signal });
  return {
    claim,
    volume,
    object,
    nodeName,
    node: nodeName ? await client.get(nodes, nodeName, { signal }) : undefined,
    pods,
    isRecreated:
      Boolean(claim.metadata.ownerReferences?.some(({ controller }) => controller)) ||
      sets.some((set) => set && ordinalOf(set, name) !== undefined),
  };
}

/** What will be lost, in a few lines. */
export function lossText(found: Droppable, nowMs: number): string {
  const { claim, volume, object, nodeName, node, pods, isRecreated } = found;
  const size = formatBytes(bytesOf(object?.status?.currentSize ?? volume.spec?.capacity?.['storage'] ?? 0));
  const created = age(volume.metadata.creationTimestamp, nowMs);
  const isReady = node?.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True');
  const state = !node ? ', which is not in the cluster' : isReady ? '' : ', which is not Ready';
  const use = pods.map(({ metadata, status }) => {
    const since = status?.startTime ? ` for ${age(status.startTime, nowMs)}` : '';
    return `pod ${metadata.name} (${status?.phase ?? 'Unknown'})${since}`;
  });
  return [
    `claim ${claim.metadata.namespace}/${claim.metadata.name}: volume ${volume.metadata.name}, ${size}, created ${created} ago, on node ${nodeName}${state}`,
    `  used by ${use.join(', ') || 'no pod'}`,
    `  ${fateOf(found, Boolean(isReady))}`,
    ...(isRecreated ? [] : ['  nothing creates this claim again: create it yourself afterwards']),
  ].join('\n');
}

function fateOf({ volume, object, nodeName }: Droppable, isReady: boolean): string {
  const { name } = volume.metadata;
  if (volume.spec?.local) return `PersistentVolume ${name} stays; its options decide about the data`;
  if (volume.spec?.persistentVolumeReclaimPolicy === 'Retain') return `PersistentVolume ${name} is retained`;
  const isReachable = isReady && object && !object.status?.missingFrom;
  return isReachable ? 'its data will be deleted' : `what is left of its data stays on the disks of ${nodeName}`;
}

/** The claim with the order. */
export function orderOf({ claim, volume }: Droppable): Manifest {
  const { name, namespace = '' } = claim.metadata;
  const annotations = { [tombstone.annotations[0]]: 'force', [tombstone.confirm]: volume.metadata.name };
  return { apiVersion: 'v1', kind: persistentVolumeClaims.kind, metadata: { name, namespace, annotations } };
}

export async function drop(client: KubeClient, found: Droppable, signal: AbortSignal): Promise<void> {
  const { name, namespace, resourceVersion } = found.claim.metadata;
  const body = { metadata: { resourceVersion, annotations: orderOf(found).metadata.annotations } };
  await client.patch(persistentVolumeClaims, name, { type: 'merge', body }, { namespace, signal });
}

/** Waits for the new volume, or if nothing creates the claim again, until it is gone. Returns what happened. */
export async function untilDropped(client: KubeClient, found: Droppable, signal: AbortSignal): Promise<string> {
  const { name, namespace = '' } = found.claim.metadata;
  const key = `${namespace}/${name}`;
  const fieldSelector = `metadata.name=${name}`;
  const options = { client, namespace, fieldSelector, clock: systemClock, log: noLog };
  const claims = new Informer({ ...options, resource: persistentVolumeClaims });
  claims.start();
  try {
    for (;;) {
      await claims.until(key, (claim) => isSettled(claim, found), signal);
      // What is watched may be behind.
      const claim = await client.get(persistentVolumeClaims, name, { namespace, signal });
      if (!isSettled(claim, found)) continue;
      if (!claim) return `claim ${key} is gone`;
      if (claim.metadata.uid === found.claim.metadata.uid) {
        throw new CannotDrop(`claim ${key} was not released; see kubectl moorage volume ${key}`);
      }
      const volume = await client.get(persistentVolumes, claim.spec?.volumeName ?? '', { signal });
      return `claim ${key} has the new volume ${volume?.metadata.name} on node ${volume && nodeOf(volume)}`;
    }
  } finally {
    await claims.stop();
  }
}

/** Whether it has a new volume, is gone for good, or keeps its volume because the order was withdrawn. */
export function isSettled(
  claim: Stored<PersistentVolumeClaim> | undefined,
  { claim: before, isRecreated }: Pick<Droppable, 'claim' | 'isRecreated'>,
): boolean {
  if (!claim) return !isRecreated;
  const { uid, annotations = {}, deletionTimestamp, resourceVersion } = claim.metadata;
  if (uid !== before.metadata.uid) return claim.status?.phase === 'Bound';
  const isOrdered = deletionTimestamp !== undefined || tombstone.annotations[0] in annotations;
  return !isOrdered && resourceVersion !== before.metadata.resourceVersion;
}

class CannotDrop extends MoorageError {
  readonly code = 'FailedPrecondition';
}
