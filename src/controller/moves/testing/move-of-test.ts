import type { LogicalVolume, StoredLogicalVolume } from '../../../api/logical-volume.ts';
import { driverName, moveAnnotation, sourceMark, topologyKey, volumeMove } from '../../../api/names.ts';
import type { MovePhase, StoredVolumeMove, VolumeMove, VolumeMoveStatus } from '../../../api/volume-move.ts';
import type { PersistentVolume, PersistentVolumeClaim, Stored } from '../../../kube/resource.ts';
import { nodeOfTest, podOfTest } from '../../../moves/testing/nodes-and-pods.ts';
import type { Observed } from '../observed.ts';
import { manifestOf } from '../persistent-volume-switch.ts';

function meta(name: string, uid = `uid-${name}`) {
  return { name, uid, resourceVersion: '1', creationTimestamp: '2026-01-01T00:00:00Z' };
}

export function claimOfTest(
  change: { metadata?: object; spec?: object; status?: object } = {},
): Stored<PersistentVolumeClaim> {
  return {
    metadata: { ...meta('data-db-0'), namespace: 'prod', ...change.metadata },
    spec: { volumeName: 'pvc-1', resources: { requests: { storage: '1Gi' } }, ...change.spec },
    status: { phase: 'Bound', capacity: { storage: '1Gi' }, ...change.status },
  };
}

/** The claim's PersistentVolume, on node a. */
export function volumeOfTest(
  change: { metadata?: object; spec?: object; status?: object; handle?: string; node?: string } = {},
): Stored<PersistentVolume> {
  const { handle = 'uid-pvc-1', node = 'a' } = change;
  const expression = { key: topologyKey, operator: 'In', values: [node] };
  return {
    metadata: {
      ...meta('pvc-1'),
      annotations: { 'pv.kubernetes.io/provisioned-by': driverName },
      finalizers: ['kubernetes.io/pv-protection'],
      ...change.metadata,
    },
    spec: {
      accessModes: ['ReadWriteOnce'],
      capacity: { storage: '1Gi' },
      persistentVolumeReclaimPolicy: 'Delete',
      mountOptions: ['noatime'],
      csi: { driver: driverName, volumeHandle: handle },
      claimRef: { namespace: 'prod', name: 'data-db-0', uid: 'uid-data-db-0', resourceVersion: '7' },
      nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions: [expression] }] } },
      ...change.spec,
    },
    status: { phase: 'Bound', ...change.status },
  };
}

export function logicalVolumeOfTest(
  name: string,
  nodeName: string,
  change: { metadata?: object; spec?: Partial<LogicalVolume['spec']>; status?: LogicalVolume['status'] } = {},
): StoredLogicalVolume {
  return {
    metadata: { ...meta(name), ...change.metadata },
    spec: { name, nodeName, size: '1Gi', deviceClass: 'ssd', ...change.spec },
    status: change.status ?? { volumeID: `uid-${name}`, currentSize: '1Gi' },
  };
}

/** The volume on node a, which the controller has marked as the source of the move. */
export const sourceVolume = (change: Parameters<typeof logicalVolumeOfTest>[2] = {}) =>
  logicalVolumeOfTest('pvc-1', 'a', {
    ...change,
    metadata: { annotations: { [sourceMark('aaaabbbb-1')]: 'source' }, ...change.metadata },
  });

export const targetVolumeName = 'pvc-1-aaaabbbb';
export const targetVolume = (change: Parameters<typeof logicalVolumeOfTest>[2] = {}) =>
  logicalVolumeOfTest(targetVolumeName, 'b', {
    ...change,
    metadata: { annotations: { [moveAnnotation]: 'aaaabbbb-1' }, ...change.metadata },
  });

/** A move of claim prod/data-db-0, planned from node a to node b if it is in any phase. */
export function moveOfTest(
  phase: MovePhase | undefined,
  status: VolumeMoveStatus = {},
  change: { metadata?: object; spec?: Partial<VolumeMove['spec']> } = {},
): StoredVolumeMove {
  const planned: VolumeMoveStatus = {
    claimUID: 'uid-data-db-0',
    persistentVolume: 'pvc-1',
    sourceNode: 'a',
    sourceVolume: 'pvc-1',
    targetNode: 'b',
    targetVolume: targetVolumeName,
    size: '1Gi',
  };
  const saved: VolumeMoveStatus = {
    manifest: manifestOf(volumeOfTest()),
    verdict: { round: 3, bytes: 100, sha256: 'abc' },
  };
  const isCommitted = phase && ['Committed', 'Switching', 'Opening', 'Cleaning', 'Done'].includes(phase);
  return {
    metadata: {
      ...meta('move', 'aaaabbbb-1'),
      namespace: 'prod',
      finalizers: [volumeMove.finalizer],
      ...change.metadata,
    },
    spec: { claimName: 'data-db-0', ...change.spec },
    ...(phase && { status: { phase, ...planned, ...(isCommitted && saved), ...status } }),
  };
}

/** A pod uses the volume on node a; nodes b and c have room; the target exists if the move is planned. */
export function observedOfTest(move: StoredVolumeMove, change: Partial<Observed> = {}): Observed {
  const isPlanned = move.status?.targetVolume !== undefined;
  return {
    ageMs: 60_000,
    claim: claimOfTest(),
    volume: volumeOfTest(),
    pods: [podOfTest('db-0')],
    pinned: [],
    source: isPlanned ? sourceVolume() : logicalVolumeOfTest('pvc-1', 'a'),
    target: isPlanned ? targetVolume() : undefined,
    snapshots: [],
    sourceNode: nodeOfTest('a'),
    targetNode: isPlanned ? nodeOfTest('b') : undefined,
    nodes: isPlanned ? [] : [nodeOfTest('a'), nodeOfTest('b'), nodeOfTest('c')],
    others: [],
    partners: [],
    ...change,
  };
}
