import { driverName, ioLimitNames } from '../../src/api/names.ts';
import type { KubeObject, Resource } from '../../src/kube/resource.ts';
import type { Cluster } from '../../worlds/cluster/cluster.ts';
import type { ClusterNode } from '../../worlds/cluster/cluster-node.ts';
import { eventually } from '../../worlds/host/eventually.ts';

interface VolumeAttributesClass extends KubeObject {
  readonly driverName: string;
  readonly parameters: Readonly<Record<string, string>>;
}
const volumeAttributesClasses: Resource<VolumeAttributesClass> = {
  group: 'storage.k8s.io',
  version: 'v1',
  plural: 'volumeattributesclasses',
  kind: 'VolumeAttributesClass',
  namespaced: false,
};

/** An API server's flag. The tested sidecars read VolumeAttributesClasses from this API, which is off by default. */
export const betaAttributesClasses = '--runtime-config=storage.k8s.io/v1beta1=true';

/** Limits written bytes and reads per second. */
export async function createAttributesClass(
  cluster: Cluster,
  name: string,
  writeBytes: string,
  readOperations: string,
): Promise<void> {
  const parameters = {
    [ioLimitNames.writeBytesPerSecond]: writeBytes,
    [ioLimitNames.readOperationsPerSecond]: readOperations,
  };
  await cluster.kube.create(volumeAttributesClasses, { metadata: { name }, driverName, parameters });
}

/** Waits until the pod has the limits, as the kernel shows them. */
export async function limitsBecome(node: ClusterNode, podUid: string, ...limits: string[]): Promise<void> {
  await eventually(`pod ${podUid} has ${limits.join(' ')}`, async () => {
    const found = await node.shell(`cat $(find /sys/fs/cgroup -type d -name '*pod${podUid}*' | head -1)/io.max`);
    return limits.every((limit) => found.split(/\s/).includes(limit));
  });
}
