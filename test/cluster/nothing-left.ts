import assert from 'node:assert/strict';
import type { Cluster } from '../../worlds/cluster/cluster.ts';
import { thin } from '../../worlds/cluster/cluster-node.ts';
import type { Moorage } from '../../worlds/cluster/moorage.ts';

/** After all claims are deleted, no node has space, loop devices, decrypted devices or mounts left in use. */
export async function nothingLeft(cluster: Cluster, moorage: Moorage): Promise<void> {
  await moorage.whenNoVolumes();
  for (const node of cluster.nodes) {
    const volumes = (await node.shell('lvs --noheadings -o lv_name')).split('\n').map((name) => name.trim());
    assert.deepEqual(
      volumes.filter((name) => name !== '' && name !== thin.pool),
      [],
      `logical volumes on ${node.name}`,
    );
    assert.equal((await node.shell('losetup --list --noheadings')).trim(), '', `loop devices on ${node.name}`);
    const decrypted = await node.shell('ls /dev/mapper | grep ^moorage-luks- || true');
    assert.equal(decrypted.trim(), '', `decrypted devices on ${node.name}`);
    const mounts = await node.shell('grep -E "^/dev/(mapper|loop|local)" /proc/mounts || true');
    assert.equal(mounts.trim(), '', `mounts on ${node.name}`);
  }
}
