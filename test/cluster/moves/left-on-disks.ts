import assert from 'node:assert/strict';
import { logicalVolumes, volumeIdOf } from '../../../src/api/logical-volume.ts';
import type { Cluster } from '../../../worlds/cluster/cluster.ts';
import { thin } from '../../../worlds/cluster/cluster-node.ts';

const fileClass = '/var/lib/moorage';

/** What the volumes of a node look like on its disks. */
interface OnDisk {
  readonly name: string;
  readonly isWritable: boolean;
  readonly tags: string;
}

/**
 * Each LogicalVolume is on the disks of its node and on no other, can be written, and has no tag of a move; there is no
 * checkpoint and no reservation of a thin pool's metadata.
 */
export async function onlyVolumesLeft(cluster: Cluster): Promise<void> {
  const { items } = await cluster.kube.list(logicalVolumes);
  for (const { metadata } of items) assert.equal(metadata.annotations?.['moorage.dev/move'], undefined, metadata.name);
  for (const node of cluster.nodes) {
    const own = items.filter(({ spec }) => spec.nodeName === node.name).map(volumeIdOf);
    const volumes = await onDisk((script) => node.shell(script));
    assert.deepEqual(volumes.map(({ name }) => name).sort(), own.sort(), `volumes on ${node.name}`);
    for (const { name, tags, isWritable } of volumes) {
      assert.doesNotMatch(tags, /moorage\.dev\/(moving|receiving|position|checkpoint|reads-metadata)/, name);
      assert.ok(isWritable, `${name} on ${node.name} is read-only`);
    }
    const pool = await node.shell('dmsetup status --target thin-pool');
    assert.equal(pool.split(' ')[7], '-', `metadata of ${thin.pool} on ${node.name} is held: ${pool}`);
  }
}

async function onDisk(shell: (script: string) => Promise<string>): Promise<readonly OnDisk[]> {
  const found = await shell(
    `lvs --noheadings --separator=' ' -o lv_name,lv_attr,lv_tags
     cd ${fileClass} 2>/dev/null && for file in *; do [ ! -e "$file" ] || echo "$file" $(cat "\${file%.img}.json" 2>/dev/null); done || true`,
  );
  return found
    .split('\n')
    .map((line) => line.trim().split(' '))
    .filter(([name = '']) => name !== '' && name !== thin.pool && !name.endsWith('.json'))
    .map(([name = '', attributes = '', ...rest]) => {
      const isFile = name.includes('.img');
      const tags = [attributes, ...rest].join(' ');
      return {
        name: name.replace(/\.img$/, ''),
        tags,
        isWritable: isFile ? !/"readOnly": ?true/.test(tags) : attributes[1] === 'w',
      };
    });
}
