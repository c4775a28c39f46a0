import { logicalVolumes } from '../../src/api/logical-volume.ts';
import { driverName, topologyKey } from '../../src/api/names.ts';
import { nodeStorages } from '../../src/api/node-storage.ts';
import { nodes, persistentVolumeClaims, persistentVolumes, pods } from '../../src/kube/resource.ts';
import { namespaces } from '../../src/kube/testing/resources.ts';
import type { Cluster } from '../../worlds/cluster/cluster.ts';

export const volumeCount = 20_000;
export const nodeCount = 100;
const requestsAtOnce = 32;
const namespace = 'bench';
const resources = { requests: { storage: '1Gi' } };

/** Volumes with their claims and pods, as a cluster has them, but without machines. */
export async function createObjects(cluster: Cluster, say: (detail: string) => void): Promise<void> {
  await cluster.kubectl('apply', '-fdeploy/crd.yaml');
  await cluster.kubectl('wait', '--for=condition=Established', 'crd', '--all');
  await cluster.kube.create(namespaces, { metadata: { name: namespace } });
  await cluster.kubectl('-n', namespace, 'wait', '--for=create', 'serviceaccount/default', '--timeout=60s');
  // They would spend the machine on objects that have no node.
  await cluster.controlPlane.controllerManager.kill();
  await cluster.controlPlane.scheduler.kill();
  for (let i = 0; i < nodeCount; i++) await createNode(cluster, `node-${i}`);
  const numbers = Array.from({ length: volumeCount }, (_, i) => i).values(); // shared by all workers
  const worker = async () => {
    for (const i of numbers) {
      if (i % 1000 === 0) say(`${i}`);
      await createVolume(cluster, i);
    }
  };
  await Promise.all(Array.from({ length: requestsAtOnce }, worker));
}

async function createNode({ kube }: Cluster, name: string): Promise<void> {
  const { metadata } = await kube.create(nodes, { metadata: { name } });
  const nothing = { total: 0, volumes: [] };
  const pool = { deviceClass: 'ssd', default: true, type: 'thick', volumeGroup: 'vg0', health: 'Healthy' } as const;
  const usage = { size: '1Ti', used: '200Gi', free: '824Gi', spare: '10Gi', volumes: volumeCount / nodeCount };
  await kube.create(nodeStorages, {
    metadata: { name },
    status: {
      ...{ nodeUID: metadata.uid, updatedAt: metadata.creationTimestamp, health: 'Healthy' },
      ...{ pools: [{ ...pool, ...usage }], erasures: nothing, orphans: nothing, versions: {}, features: {} },
    },
  });
}

async function createVolume({ kube }: Cluster, i: number): Promise<void> {
  const [name, claim, nodeName] = [`pvc-${i}`, `data-${i}`, `node-${i % nodeCount}`];
  await kube.create(logicalVolumes, {
    metadata: { name, annotations: { 'moorage.dev/claim': `${namespace}/${claim}` } },
    spec: { name, nodeName, size: '1Gi', deviceClass: 'ssd' },
  });
  const status = { volumeID: `id-${i}`, currentSize: '1Gi', code: 0 };
  await kube.patch(logicalVolumes, name, { type: 'merge', body: { status } }, { subresource: 'status' });
  const onNode = { matchExpressions: [{ key: topologyKey, operator: 'In', values: [nodeName] }] };
  await kube.create(persistentVolumes, {
    metadata: { name },
    spec: {
      accessModes: ['ReadWriteOnce'],
      capacity: { storage: '1Gi' },
      csi: { driver: driverName, volumeHandle: `id-${i}` },
      claimRef: { namespace, name: claim },
      nodeAffinity: { required: { nodeSelectorTerms: [onNode] } },
    },
  });
  await kube.create(persistentVolumeClaims, {
    metadata: { name: claim, namespace },
    spec: { accessModes: ['ReadWriteOnce'], storageClassName: '', resources, volumeName: name },
  });
  await kube.create(pods, {
    metadata: { name: `pod-${i}`, namespace },
    spec: {
      containers: [{ name: 'main', image: 'none' }],
      volumes: [{ name: 'data', persistentVolumeClaim: { claimName: claim } }],
    },
  });
}
