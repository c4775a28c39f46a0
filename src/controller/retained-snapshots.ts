import { isNotFound } from '../kube/api-error.ts';
import type { KubeClient } from '../kube/client.ts';
import type { ObjectMeta, Resource } from '../kube/resource.ts';
import { driverName } from '../names.ts';

/** A VolumeSnapshotContent, so far as we read it. */
export interface SnapshotContent {
  readonly metadata?: ObjectMeta;
  readonly spec: {
    readonly driver: string;
    readonly deletionPolicy: 'Delete' | 'Retain';
    readonly source: { readonly snapshotHandle?: string };
  };
  readonly status?: { readonly snapshotHandle?: string };
}

export const snapshotContents: Resource<SnapshotContent> = {
  group: 'snapshot.storage.k8s.io',
  version: 'v1',
  plural: 'volumesnapshotcontents',
  kind: 'VolumeSnapshotContent',
  namespaced: false,
};

/** The IDs of our snapshots that shall outlive the objects that name them; a cluster may know no snapshots at all. */
export async function retainedSnapshots(
  client: Pick<KubeClient, 'list'>,
  signal: AbortSignal,
): Promise<ReadonlySet<string>> {
  try {
    const { items } = await client.list(snapshotContents, { signal });
    const retained = items.filter(({ spec }) => spec.driver === driverName && spec.deletionPolicy === 'Retain');
    const handles = retained.map(({ spec, status }) => status?.snapshotHandle ?? spec.source.snapshotHandle);
    return new Set(handles.filter((handle) => handle !== undefined));
  } catch (error) {
    if (isNotFound(error)) return new Set();
    throw error;
  }
}
