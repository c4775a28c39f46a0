import type {
  CsiStorageCapacity,
  Node,
  PersistentVolume,
  PersistentVolumeClaim,
  Pod,
  StorageClass,
  Stored,
} from '../../kube/resource.ts';

const gibi = 1024n ** 3n;

/** How a test changes an object. */
export type Change = { readonly metadata?: object; readonly spec?: object; readonly status?: object };

export function meta(name: string) {
  return { name, uid: `uid-${name}`, resourceVersion: '1', creationTimestamp: '2026-01-01T00:00:00Z' };
}

/** A node with this much free space in device class ssd, which is its default class. */
export function node(name: string, gibiFree: bigint, change: Change = {}): Stored<Node> {
  const free = String(gibiFree * gibi);
  return {
    spec: { ...change.spec },
    status: {
      conditions: [{ type: 'Ready', status: 'True' }],
      allocatable: { cpu: '4', memory: '8Gi', pods: '110' },
      ...change.status,
    },
    metadata: {
      ...meta(name),
      labels: { 'kubernetes.io/hostname': name, 'topology.topolvm.io/node': name },
      annotations: { 'capacity.topolvm.io/00default': free, 'capacity.topolvm.io/ssd': free },
      ...change.metadata,
    },
  };
}

/** A pod that uses the claims and is not scheduled. */
export function pod(name: string, claims: readonly string[] = [], change: Change = {}): Stored<Pod> {
  return {
    metadata: { ...meta(name), namespace: 'prod', ...change.metadata },
    spec: {
      containers: [{ name: 'main', image: 'db' }],
      volumes: claims.map((claimName) => ({ name: claimName, persistentVolumeClaim: { claimName } })),
      ...change.spec,
    },
    status: { phase: 'Pending', ...change.status },
  };
}

/** A claim of class fast that waits for a volume. */
export function claim(name: string, size = '20Gi', change: Change = {}): Stored<PersistentVolumeClaim> {
  return {
    metadata: { ...meta(name), namespace: 'prod', ...change.metadata },
    spec: {
      storageClassName: 'fast',
      accessModes: ['ReadWriteOnce'],
      resources: { requests: { storage: size } },
      ...change.spec,
    },
    status: { phase: 'Pending', ...change.status },
  };
}

/** A PersistentVolume of Moorage on a node, bound to the claim. */
export function volumeOf(owner: Stored<PersistentVolumeClaim>, nodeName: string, change: Change = {}) {
  const { namespace = '', name, uid } = owner.metadata;
  const expression = { key: 'topology.topolvm.io/node', operator: 'In', values: [nodeName] };
  const volume: Stored<PersistentVolume> = {
    metadata: { ...meta(owner.spec?.volumeName ?? `pv-${name}`), ...change.metadata },
    spec: {
      storageClassName: owner.spec?.storageClassName ?? '',
      capacity: { storage: owner.spec?.resources?.requests?.['storage'] ?? '' },
      accessModes: ['ReadWriteOnce'],
      persistentVolumeReclaimPolicy: 'Delete',
      csi: { driver: 'topolvm.io', volumeHandle: `id-${name}` },
      claimRef: { namespace, name, uid },
      nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions: [expression] }] } },
      ...change.spec,
    },
    status: { phase: 'Bound', ...change.status },
  };
  return volume;
}

export function storageClass(name = 'fast', change: Omit<StorageClass, 'provisioner'> & { provisioner?: string } = {}) {
  const object: Stored<StorageClass> = {
    provisioner: 'topolvm.io',
    volumeBindingMode: 'WaitForFirstConsumer',
    ...change,
    metadata: { ...meta(name), ...change.metadata },
  };
  return object;
}

export function capacity(nodeName: string, size: string, className = 'fast'): Stored<CsiStorageCapacity> {
  return {
    metadata: { ...meta(`${nodeName}-${className}`), namespace: 'moorage-system' },
    storageClassName: className,
    capacity: size,
    nodeTopology: { matchLabels: { 'topology.topolvm.io/node': nodeName } },
  };
}

/** The same object, bound to a volume. */
export function bound(unbound: Stored<PersistentVolumeClaim>): Stored<PersistentVolumeClaim> {
  const volumeName = `pv-${unbound.metadata.name}`;
  return { ...unbound, spec: { ...unbound.spec, volumeName }, status: { ...unbound.status, phase: 'Bound' } };
}
