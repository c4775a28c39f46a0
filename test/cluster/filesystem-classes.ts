import { driverName } from '../../src/api/names.ts';
import { filesystems } from '../../src/filesystem/filesystem.ts';
import { storageClasses } from '../../src/kube/resource.ts';
import type { Cluster } from '../../worlds/cluster/cluster.ts';

/** A StorageClass `moorage-<filesystem>` for each. */
export async function createFilesystemClasses(cluster: Cluster): Promise<void> {
  for (const { name } of filesystems) {
    await cluster.kube.create(storageClasses, {
      metadata: { name: `moorage-${name}` },
      provisioner: driverName,
      parameters: { 'csi.storage.k8s.io/fstype': name },
      volumeBindingMode: 'WaitForFirstConsumer',
      allowVolumeExpansion: true,
    });
  }
}
