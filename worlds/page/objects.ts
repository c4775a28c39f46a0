import { type LogicalVolume, logicalVolumes } from '../../src/api/logical-volume.ts';
import {
  capacityAnnotationPrefix,
  claimKey,
  defaultCapacityAnnotation,
  driverName,
  topologyKey,
} from '../../src/api/names.ts';
import { type NodeStorageStatus, nodeStorages } from '../../src/api/node-storage.ts';
import { parseQuantity } from '../../src/base/quantity.ts';
import type { KubeClient } from '../../src/kube/client.ts';
import {
  csiNodes,
  type KubeObject,
  nodes,
  type Pod,
  persistentVolumeClaims,
  persistentVolumes,
  pods,
  type Resource,
} from '../../src/kube/resource.ts';

/** An object to create, with its status. */
export interface Entry {
  readonly resource: Resource<KubeObject>;
  readonly object: KubeObject;
}

export function entry<T extends KubeObject>(resource: Resource<T>, object: T): Entry {
  return { resource, object };
}

/** On a real API server, where a status is written separately. */
export async function createAll(client: KubeClient, entries: readonly Entry[]): Promise<void> {
  for (const { resource, object } of entries) {
    const { status, ...rest } = object as KubeObject & { readonly status?: object };
    const isWhole = resource.kind === nodeStorages.kind || !status;
    const { metadata } = await client.create(resource, isWhole ? object : rest);
    if (isWhole) continue;
    const patch = { type: 'merge', body: { status } } as const;
    await client.patch(resource, metadata.name, patch, { namespace: metadata.namespace, subresource: 'status' });
  }
}

type Pool = NodeStorageStatus['pools'][number];

/** A Node and what its agent reports. The first pool is the default one. */
export function nodeEntries(
  name: string,
  pools: readonly Pool[],
  report: Partial<NodeStorageStatus> = {},
): readonly Entry[] {
  const nothing = { total: 0, volumes: [] };
  const free = ({ free = '0' }: Pool) => String(parseQuantity(String(free)));
  const capacity = pools.map((pool) => [`${capacityAnnotationPrefix}${pool.deviceClass}`, free(pool)]);
  const [first] = pools;
  const annotations = Object.fromEntries([...capacity, ...(first ? [[defaultCapacityAnnotation, free(first)]] : [])]);
  const drivers = [{ name: driverName, nodeID: name, topologyKeys: [topologyKey] }];
  return [
    entry(csiNodes, { metadata: { name }, spec: { drivers } }),
    entry(nodes, { metadata: { name, annotations, labels: { [topologyKey]: name, 'kubernetes.io/hostname': name } } }),
    entry(nodeStorages, {
      metadata: { name },
      status: {
        ...{ nodeUID: `nodes-${name}`, updatedAt: new Date().toISOString(), health: 'Healthy' },
        pools: pools.map((pool, i) => ({ ...pool, default: i === 0 })),
        ...{ erasures: nothing, orphans: nothing, versions: {}, features: {} },
        ...report,
      },
    }),
  ];
}

export interface SampleVolume {
  readonly namespace: string;
  readonly claim: string;
  readonly node: string;
  readonly deviceClass: string;
  readonly size: string;
  readonly storageClass: string;
  readonly createdAt?: string;
  readonly status?: LogicalVolume['status'];
  /** Without one, no pod uses the claim. */
  readonly pod?: string;
  readonly podStatus?: Pod['status'];
}

/** A claim with its volume, as the controller and a node leave them, and the pod of a StatefulSet that uses it. */
export function volumeEntries(volume: SampleVolume): readonly Entry[] {
  const { namespace, claim, node, deviceClass, size, storageClass, createdAt, status, pod, podStatus } = volume;
  const name = `pvc-${namespace}-${claim}`;
  const volumeID = `id-${name}`;
  const made = createdAt ? { creationTimestamp: createdAt } : {};
  const onNode = { matchExpressions: [{ key: topologyKey, operator: 'In', values: [node] }] };
  const specOfClaim = {
    ...{ accessModes: ['ReadWriteOnce'], storageClassName: storageClass, volumeName: name },
    resources: { requests: { storage: size } },
  };
  const controller = { apiVersion: 'apps/v1', kind: 'StatefulSet', name: 'set', uid: 'set', controller: true };
  return [
    entry(logicalVolumes, {
      metadata: { name, ...made, annotations: { [claimKey]: `${namespace}/${claim}` } },
      spec: { name, nodeName: node, size, deviceClass },
      status: { volumeID, currentSize: size, ...status },
    }),
    entry(persistentVolumes, {
      metadata: { name, ...made },
      spec: {
        ...{ accessModes: ['ReadWriteOnce'], capacity: { storage: size }, storageClassName: storageClass },
        csi: { driver: driverName, volumeHandle: volumeID, fsType: 'xfs' },
        claimRef: { namespace, name: claim },
        nodeAffinity: { required: { nodeSelectorTerms: [onNode] } },
      },
      status: { phase: 'Bound', ...(createdAt && { lastPhaseTransitionTime: createdAt }) },
    }),
    entry(persistentVolumeClaims, {
      metadata: { name: claim, namespace, ...made },
      spec: specOfClaim,
      status: { phase: 'Bound', capacity: { storage: size } },
    }),
    ...(pod
      ? [
          entry(pods, {
            metadata: { name: pod, namespace, ...made, ownerReferences: [controller] },
            spec: {
              nodeName: node,
              containers: [{ name: 'main', image: 'none' }],
              volumes: [{ name: 'data', persistentVolumeClaim: { claimName: claim } }],
            },
            status: { phase: 'Running', ...podStatus },
          }),
        ]
      : []),
  ];
}
