import type { KubeObject, Resource } from '../../src/kube/resource.ts';
import type { Cluster } from '../../worlds/cluster/cluster.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import type { TestNamespace } from './test-namespace.ts';

export interface VolumeSnapshot extends KubeObject {
  readonly spec: {
    readonly volumeSnapshotClassName: string;
    readonly source: { readonly persistentVolumeClaimName: string };
  };
  readonly status?: { readonly readyToUse?: boolean; readonly error?: { readonly message?: string } };
}

export const volumeSnapshots: Resource<VolumeSnapshot> = {
  group: 'snapshot.storage.k8s.io',
  version: 'v1',
  plural: 'volumesnapshots',
  kind: 'VolumeSnapshot',
  namespaced: true,
};

/** Creates a snapshot of a claim. */
export async function requestSnapshot(
  cluster: Cluster,
  { name: namespace }: TestNamespace,
  name: string,
  claim: string,
) {
  await cluster.kube.create(volumeSnapshots, {
    metadata: { name, namespace },
    spec: { volumeSnapshotClassName: 'moorage', source: { persistentVolumeClaimName: claim } },
  });
}

export async function snapshotReady(cluster: Cluster, { name: namespace }: TestNamespace, name: string): Promise<void> {
  await eventually(
    `snapshot ${namespace}/${name} can be used`,
    async () => (await cluster.kube.get(volumeSnapshots, name, { namespace }))?.status?.readyToUse === true,
    {
      explain: async () =>
        [await cluster.kubectl('-n', namespace, 'describe', `volumesnapshot/${name}`), await cluster.tails()].join(
          '\n',
        ),
    },
  );
}

export async function takeSnapshot(cluster: Cluster, ns: TestNamespace, name: string, claim: string): Promise<void> {
  await requestSnapshot(cluster, ns, name, claim);
  await snapshotReady(cluster, ns, name);
}
