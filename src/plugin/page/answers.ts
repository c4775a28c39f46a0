import { isSnapshotOf, logicalVolumes, type StoredLogicalVolume } from '../../api/logical-volume.ts';
import { claimOfMove, type StoredVolumeMove, volumeMoves } from '../../api/volume-move.ts';
import { InvalidInput, MoorageError } from '../../base/errors.ts';
import { isNotFound } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import { keyOf } from '../../kube/resource.ts';
import { assumedBytesPerSecond, readEvacuation } from '../moves/evacuation.ts';
import { readVolume, type VolumeObjects, volumeDetails } from '../volume.ts';
import type { History } from './history.ts';
import type { LiveCluster } from './live-cluster.ts';
import type { PageNode } from './model.ts';
import type { Answers } from './server.ts';
import { poolKey } from './tables.ts';
import { timelineOf } from './timeline.ts';

class NoReport extends MoorageError {
  readonly code = 'NotFound';
}

/** What the page asks for when one volume or one node is opened. All of it is read, nothing is changed. */
export function answersOf(client: KubeClient, cluster: LiveCluster, history: History): Answers {
  return {
    async volume(query, signal) {
      const objects = await readVolume(client, required(query, 'name'), 'default', signal);
      const [moves, snapshots] = await Promise.all([
        movesOf(client, objects, signal),
        snapshotsOf(client, objects, signal),
      ]);
      return { ...volumeDetails(objects), timeline: timelineOf({ ...objects, moves, snapshots }) };
    },
    async node(query): Promise<PageNode> {
      const name = required(query, 'name');
      const status = cluster.node(name)?.status;
      if (!status) throw new NoReport(`node ${name} has not reported its pools; see the logs of its agent`);
      const { versions, erasures, pools } = status;
      return {
        versions: { ...versions },
        erasures: erasures.volumes,
        history: Object.fromEntries(
          pools.map(({ deviceClass }) => [deviceClass, history.of(poolKey(name, deviceClass))]),
        ),
      };
    },
    async evacuation(query, signal) {
      const request = {
        nodeName: required(query, 'node'),
        targetNode: query.get('to') || undefined,
        stopBarePods: query.get('stop-bare-pods') === 'true',
      };
      const plan = await readEvacuation(client, request, signal);
      const seconds = Number(plan.totalBytes / assumedBytesPerSecond);
      return { ...plan, seconds, bytesPerSecond: assumedBytesPerSecond };
    },
  };
}

function required(query: URLSearchParams, name: string): string {
  const value = query.get(name);
  if (!value) throw new InvalidInput(`${name} is missing; pass it in the query`);
  return value;
}

async function movesOf(
  client: KubeClient,
  { claim }: VolumeObjects,
  signal: AbortSignal,
): Promise<readonly StoredVolumeMove[]> {
  if (!claim) return [];
  try {
    const { items } = await client.list(volumeMoves, { namespace: claim.metadata.namespace, signal });
    return items.filter((move) => claimOfMove(move) === keyOf(claim));
  } catch (error) {
    if (isNotFound(error)) return []; // the cluster does not have the kind
    throw error;
  }
}

async function snapshotsOf(
  client: KubeClient,
  { volume }: VolumeObjects,
  signal: AbortSignal,
): Promise<readonly StoredLogicalVolume[]> {
  if (!volume) return [];
  const fieldSelector = `spec.nodeName=${volume.spec.nodeName}`;
  const { items } = await client.list(logicalVolumes, { fieldSelector, signal });
  return items.filter((each) => isSnapshotOf(each, volume));
}
