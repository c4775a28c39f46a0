import { driverName } from '../../src/api/names.ts';
import { storageClasses } from '../../src/kube/resource.ts';
import type { Cluster } from '../../worlds/cluster/cluster.ts';

export const filesystems = ['ext4', 'xfs', 'btrfs'] as const;

/** A StorageClass `moorage-<filesystem>` for each. */
export async function createFilesystemClasses(cluster: Cluster): Promise<void> {
  for (const filesystem of filesystems) {
    await cluster.kube.create(storageClasses, {
      metadata: { name: `moorage-${filesystem}` },
      provisioner: driverName,
      parameters: { 'csi.storage.k8s.io/fstype': filesystem },
      volumeBindingMode: 'WaitForFirstConsumer',
      allowVolumeExpansion: true,
    });
  }
}
