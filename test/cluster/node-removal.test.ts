import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { logicalVolumes } from '../../src/api/logical-volume.ts';
import { driverName, nodeFinalizer } from '../../src/api/names.ts';
import { nodes, persistentVolumes, storageClasses } from '../../src/kube/resource.ts';
import type { Cluster } from '../../worlds/cluster/cluster.ts';
import { volumeGroup } from '../../worlds/cluster/cluster-node.ts';
import type { Moorage } from '../../worlds/cluster/moorage.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { nothingLeft } from './nothing-left.ts';
import { sharedCluster } from './shared-cluster.ts';
import { StatefulSet } from './stateful-set.ts';

describe('a node that is removed', () => {
  let cluster: Cluster;
  let moorage: Moorage;
  before(async () => {
    ({ cluster, moorage } = await sharedCluster());
    await cluster.kube.create(storageClasses, {
      metadata: { name: 'retained' },
      provisioner: driverName,
      reclaimPolicy: 'Retain',
      volumeBindingMode: 'WaitForFirstConsumer',
    });
  });

  test('its workloads start again elsewhere, and retained volumes wait for its return', async () => {
    const [leaving, staying] = cluster.nodes;
    assert.ok(leaving && staying);
    await cluster.kubectl('cordon', staying.name);
    const plain = await StatefulSet.create(cluster, 'plain');
    const kept = await StatefulSet.create(cluster, 'kept', { storageClass: 'retained' });
    const sets = [plain, kept];
    for (const set of sets) await set.ready();
    const [written] = await kept.lines();
    const ids = [await plain.volumeId(), await kept.volumeId()];
    const keptVolume = await cluster.kubectl('get', 'pvc', 'data-kept-0', '-ojsonpath={.spec.volumeName}');
    await cluster.kubectl('uncordon', staying.name);
    const finalizers = (await cluster.kube.get(nodes, leaving.name))?.metadata.finalizers ?? [];
    assert.ok(finalizers.includes(nodeFinalizer));

    await cluster.kubectl('delete', 'node', leaving.name, '--timeout=110s');

    for (const set of sets) {
      await eventually(`${set.name} is elsewhere`, async () => (await set.nodeOf()) === staying.name, {
        explain: () => cluster.tails(),
      });
      await set.ready();
      assert.equal((await set.lines()).length, 1, 'on a fresh volume');
    }
    const { items } = await cluster.kube.list(logicalVolumes, { fieldSelector: `spec.nodeName=${leaving.name}` });
    assert.deepEqual(
      items.map(({ metadata }) => metadata.name),
      [keptVolume],
    );
    await eventually('the volume with reclaim policy Delete is gone', async () => {
      const { items: left } = await cluster.kube.list(persistentVolumes);
      const handles = new Set(left.map(({ spec }) => spec?.csi?.volumeHandle));
      return !handles.has(ids[0]) && handles.has(ids[1]);
    });
    const onDisk = await leaving.shell(`lvs --noheadings -o lv_name ${volumeGroup}`);
    for (const id of ids) assert.match(onDisk, new RegExp(id), 'nothing was done to its disks');

    await leaving.kill();
    await leaving.boot();
    await moorage.whenServing(leaving);
    await kept.delete();
    const release = [{ op: 'remove', path: '/spec/claimRef' }];
    await cluster.kubectl('patch', 'pv', keptVolume, '--type=json', `-p=${JSON.stringify(release)}`);
    await cluster.kubectl('cordon', staying.name); // so that the new claim binds to the old volume
    const returned = await StatefulSet.create(cluster, 'kept', { storageClass: 'retained' });
    await returned.ready();
    assert.equal((await returned.lines())[0], written, 'its data is there again');

    await cluster.kubectl('uncordon', staying.name);
    const toRemove = { spec: { persistentVolumeReclaimPolicy: 'Delete' } };
    const { items: volumes } = await cluster.kube.list(persistentVolumes);
    for (const { metadata } of volumes) {
      await cluster.kube.patch(persistentVolumes, metadata.name, { type: 'merge', body: toRemove });
    }
    for (const set of [plain, returned]) await set.delete();
    await leaving.shell(`lvremove -qy ${volumeGroup}/${ids[0]}`); // nobody owns it since its Node was deleted
    await nothingLeft(cluster, moorage);
  });
});
