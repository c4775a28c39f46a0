import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nodeStorages } from '../../src/api/node-storage.ts';
import { nodes } from '../../src/kube/resource.ts';
import { volumeGroup } from '../../worlds/cluster/cluster-node.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { sharedCluster } from './shared-cluster.ts';

test('a node reports its volume group, thin pool and directory, its versions and which machine it is', async () => {
  const { cluster } = await sharedCluster();
  const node = cluster.node('a');
  const { metadata, status } = await eventually('its storage is reported', async () => {
    const found = await cluster.kube.get(nodeStorages, node.name);
    return found?.status?.pools.every(({ health }) => health === 'Healthy') && found;
  });
  assert.equal(metadata.ownerReferences, undefined);
  assert.equal(status?.nodeUID, (await cluster.kube.get(nodes, node.name))?.metadata.uid);
  const [file, lvm, thin] = status?.pools ?? [];
  assert.deepEqual([file?.type, lvm?.type, thin?.type], ['file', 'thick', 'thin']);
  assert.equal(lvm?.volumeGroupUUID, (await node.shell(`vgs --noheadings -o vg_uuid ${volumeGroup}`)).trim());
  assert.ok(thin?.thin);
  assert.equal(status?.versions.lvm?.split('(')[0], (await node.shell('lvm version')).match(/2\.\d+\.\d+/)?.[0]);
  assert.ok(status?.versions.e2fsprogs && status.versions.xfsprogs && status.versions.btrfsProgs);
  assert.ok(status?.versions.kernel);
  assert.ok(status.features.segmentTypes?.includes('thin-pool'));
});
