import type { StoredLogicalVolume } from '../../api/logical-volume.ts';
import type { StoredVolumeMove } from '../../api/volume-move.ts';
import type { CsiDriver, CsiNode, Event, StatefulSet, Stored, VolumeSnapshot } from '../../kube/resource.ts';
import { explainClaim, explainMissingPod, explainPod } from '../explain.ts';
import type { Explanation, ReasonCode } from '../explanation.ts';
import { type Claim, Known, type Objects } from '../known.ts';
import { bound, type Change, capacity, claim, meta, node, pod, storageClass, volumeOf } from './objects.ts';

/** One situation for each reason: the documentation lists the same sentences. */
export interface Example {
  readonly code: ReasonCode;
  readonly sentence: string;
  readonly explain: () => Explanation | undefined;
}

const selectedNode = 'volume.kubernetes.io/selected-node';
export const deleted = '2026-01-02T00:00:00Z';

export const driver: Stored<CsiDriver> = { metadata: meta('topolvm.io'), spec: { storageCapacity: true } };
export const csiNode = (name: string): Stored<CsiNode> => ({
  metadata: meta(name),
  spec: { drivers: [{ name: 'topolvm.io', nodeID: name, topologyKeys: ['topology.topolvm.io/node'] }] },
});

export function event(
  about: { readonly metadata: { readonly uid: string } },
  reason: string,
  note: string,
  change: object = {},
) {
  const object: Stored<Event> = {
    metadata: meta(`${reason}-${note.length}`),
    reason,
    note,
    eventTime: '2026-01-01T00:00:01Z',
    regarding: { uid: about.metadata.uid },
    ...change,
  };
  return object;
}

export function logicalVolume(owner: Claim, nodeName: string, change: Change = {}): StoredLogicalVolume {
  const { volumeName } = owner.spec ?? {};
  return {
    metadata: { ...meta(volumeName ?? `pvc-${owner.metadata.uid}`), ...change.metadata },
    spec: { name: owner.metadata.name, nodeName, size: '20Gi', ...change.spec },
    status: volumeName ? { volumeID: `id-${owner.metadata.name}`, ...change.status } : { ...change.status },
  };
}

/** Everything is known: two nodes, one class, and nothing else. */
export const everything: Objects = {
  claims: [],
  pods: [],
  podsOfNodes: [],
  persistentVolumes: [],
  storageClasses: [storageClass()],
  nodes: [node('a', 50n), node('b', 50n)],
  csiNodes: [csiNode('a'), csiNode('b')],
  csiDrivers: [driver],
  capacities: [capacity('a', '50Gi'), capacity('b', '50Gi')],
  logicalVolumes: [],
  nodeStorages: [],
  moves: [],
  events: [],
  statefulSets: [],
  snapshots: [],
};

export const cluster = (objects: Objects) => new Known({ ...everything, ...objects });
export const ofClaim = (subject: Claim, objects: Objects = {}) =>
  explainClaim(subject, cluster({ claims: [subject], ...objects }));

/** A pod that uses the claims and waits. */
export const ofPod = (claims: readonly Claim[], objects: Objects = {}, change: Change = {}) => {
  const waiting = pod(
    'db-0',
    claims.map(({ metadata }) => metadata.name),
    change,
  );
  return explainPod(waiting, cluster({ claims, pods: [waiting], ...objects }));
};

export const data = claim('data');
export const selected = claim('data', '20Gi', { metadata: { annotations: { [selectedNode]: 'b' } } });
export const owned = bound(data);
export const onB = { persistentVolumes: [volumeOf(owned, 'b')], logicalVolumes: [logicalVolume(owned, 'b')] };
export const provisioningFailed = (text: string) =>
  event(selected, 'ProvisioningFailed', `failed to provision volume with StorageClass "fast": ${text}`);
export const copy = (kind: string, name: string, change: Change = {}) =>
  claim('data', '20Gi', { ...change, spec: { dataSource: { kind, name } } });
export const going = (finalizer: string) =>
  claim('data', '20Gi', {
    metadata: { deletionTimestamp: deleted, finalizers: [finalizer] },
    status: { phase: 'Bound' },
  });
export const running = (name: string, change: Change = {}) =>
  pod(name, ['data'], { spec: { nodeName: 'b', ...change.spec }, status: { phase: 'Running', ...change.status } });
export const nodeB = (change: Change, gibi = 50n) => [node('a', 50n), node('b', gibi, change)];
export const released = (change: Change = {}) =>
  volumeOf(owned, 'b', { ...change, spec: { ...change.spec }, status: { phase: 'Released' } });
export const removed = (change: Change = {}) =>
  logicalVolume(owned, 'b', {
    ...change,
    metadata: { deletionTimestamp: deleted, finalizers: ['topolvm.io/logicalvolume'] },
  });
export const snapshot = (change: Change = {}): Stored<VolumeSnapshot> => ({
  metadata: { ...meta('before'), namespace: 'prod', ...change.metadata },
  spec: { source: { persistentVolumeClaimName: 'data' } },
  ...(change.status && { status: change.status }),
});
export const set: Stored<StatefulSet> = {
  metadata: { ...meta('db'), namespace: 'prod' },
  spec: {
    replicas: 2,
    serviceName: 'db',
    selector: {},
    template: {},
    volumeClaimTemplates: [{ metadata: { name: 'data' } }],
  },
};
export const ofSet = (podName: string, objects: Objects) =>
  explainMissingPod(set, podName, cluster({ statefulSets: [set], ...objects }));
export const growing = (change: Change = {}) =>
  claim('data', '40Gi', {
    spec: { volumeName: 'pv-data' },
    status: { phase: 'Bound', capacity: { storage: '20Gi' }, ...change.status },
  });
export const started = (note: string, reason = 'FailedMount') => {
  const waiting = pod('db-0', ['data'], { spec: { nodeName: 'b' } });
  const objects = { claims: [owned], pods: [waiting], ...onB, events: [event(waiting, reason, note)] };
  return explainPod(waiting, cluster(objects));
};
export const move: StoredVolumeMove = {
  metadata: { ...meta('data-1'), namespace: 'prod' },
  spec: { claimName: 'data' },
  status: { phase: 'Freezing', sourceNode: 'a', targetNode: 'b', target: { copiedBytes: 50, totalBytes: 100 } },
};

/** Only what the scheduler says is left. */
export function unscheduled(message: string): Change {
  const conditions = [{ type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message }];
  return { status: { phase: 'Pending', conditions } };
}
