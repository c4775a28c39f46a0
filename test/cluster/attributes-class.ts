import { driverName, ioLimitNames } from '../../src/api/names.ts';
import type { KubeObject, Resource } from '../../src/kube/resource.ts';
import type { Cluster } from '../../worlds/cluster/cluster.ts';

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
