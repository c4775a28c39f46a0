import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { logicalVolumes } from '../../src/api/logical-volume.ts';
import { driverName, nodeFinalizer, onNodeRemoval } from '../../src/api/names.ts';
import { nodes, persistentVolumes, storageClasses } from '../../src/kube/resource.ts';
import type { Cluster } from '../../worlds/cluster/cluster.ts';
import { type ClusterNode, volumeGroup } from '../../worlds/cluster/cluster-node.ts';
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

  test('its workloads start again elsewhere, and what is retained or waits is there when it returns', async () => {
    const others = cluster.nodes;
    const leaving = await cluster.addNode();
    await moorage.joinedBy(leaving);
    for (const { name } of others) await cluster.kubectl('cordon', name);
    const kept = await StatefulSet.create(cluster, 'kept', { storageClass: 'retained' });
    const careful = await StatefulSet.create(cluster, 'careful');
    for (const set of [kept, careful]) await set.ready();
    await cluster.kubectl('annotate', 'pvc', 'data-careful-0', `${onNodeRemoval.annotation}=wait`);
    for (const { name } of others) await cluster.kubectl('uncordon', name);
    const trio = await StatefulSet.create(cluster, 'trio', { replicas: 3, spread: true });
    const ordinals = [0, 1, 2];
    for (const ordinal of ordinals) await trio.ready(ordinal);
    const places = await Promise.all(ordinals.map((ordinal) => trio.nodeOf(ordinal)));
    const moved = places.indexOf(leaving.name);
    assert.equal(new Set(places).size, 3, 'one on each node');
    const before = await Promise.all(ordinals.map((ordinal) => trio.volumeId(ordinal)));
    const ids = [before[moved] ?? '', await kept.volumeId(), await careful.volumeId()];
    const [ofKept, ofCareful] = [(await kept.lines())[0], (await careful.lines())[0]];
    const keptVolume = await volumeOf('kept');
    const finalizers = (await cluster.kube.get(nodes, leaving.name))?.metadata.finalizers ?? [];
    assert.ok(finalizers.includes(nodeFinalizer));

    await drainAndDelete(leaving);

    for (const [set, ordinal] of [[trio, moved] as const, [kept, 0] as const]) {
      const isElsewhere = async () => ![leaving.name, ''].includes(await set.nodeOf(ordinal));
      await eventually(`${set.name}-${ordinal} is elsewhere`, isElsewhere, { explain: () => cluster.tails() });
      await set.ready(ordinal);
      assert.equal((await set.lines(ordinal)).length, 1, 'on a fresh volume');
    }
    for (const ordinal of ordinals.filter((each) => each !== moved)) {
      assert.equal(await trio.volumeId(ordinal), before[ordinal], 'other nodes keep their volumes');
    }
    assert.equal(await careful.volumeId(), ids[2], 'its claim waits');
    await eventually('it asks for a decision', async () =>
      /DecisionNeeded .*bring the machine back/.test(await cluster.kubectl('describe', 'pvc', 'data-careful-0')),
    );
    const staying = [keptVolume, await volumeOf('careful')].sort();
    await eventually('only volumes that are kept are left of it', async () => {
      const { items } = await cluster.kube.list(logicalVolumes, { fieldSelector: `spec.nodeName=${leaving.name}` });
      assert.deepEqual(items.map(({ metadata }) => metadata.name).sort(), staying);
      return true;
    });
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
    await careful.ready();
    assert.equal((await careful.lines())[0], ofCareful, 'it has waited for its data');
    await kept.delete();
    const release = [{ op: 'remove', path: '/spec/claimRef' }];
    await cluster.kubectl('patch', 'pv', keptVolume, '--type=json', `-p=${JSON.stringify(release)}`);
    for (const { name } of others) await cluster.kubectl('cordon', name); // so that the new claim binds to the old volume
    const returned = await StatefulSet.create(cluster, 'kept', { storageClass: 'retained' });
    await returned.ready();
    assert.equal((await returned.lines())[0], ofKept, 'its data is there again');
    for (const { name } of others) await cluster.kubectl('uncordon', name);
    await returned.delete();

    await drainAndDelete(leaving);
    await leaving.wipe();
    await leaving.boot(); // a new machine under the old name
    await moorage.joinedBy(leaving);
    const lost = `volume ${ids[2]} is not on the disks of`;
    const isReported = async (object: string, report: string) =>
      (await cluster.kubectl('describe', object)).replaceAll(/\s+/g, ' ').includes(report);
    await eventually('the claim reports that its volume is lost', () =>
      isReported('pvc/data-careful-0', `${lost} node ${leaving.name}`),
    );
    await eventually('so does the pod', () => isReported('pod/careful-0', `${lost} this node`));
    assert.equal(
      (await leaving.shell(`lvs --noheadings ${volumeGroup}`)).trim(),
      '',
      'nothing was created in its place',
    );

    await cluster.kubectl('annotate', '--overwrite', 'pvc', 'data-careful-0', `${onNodeRemoval.annotation}=drop`);
    await eventually('its claim is another one', async () => ![ids[2], ''].includes(await careful.volumeId()));
    await careful.ready();
    assert.equal((await careful.lines()).length, 1, 'on a fresh volume, as it was told');

    const toRemove = { spec: { persistentVolumeReclaimPolicy: 'Delete' } };
    const { items: volumes } = await cluster.kube.list(persistentVolumes);
    for (const { metadata } of volumes) {
      await cluster.kube.patch(persistentVolumes, metadata.name, { type: 'merge', body: toRemove });
    }
    for (const set of [trio, careful]) await set.delete();
    await cluster.removeNode(leaving);
    await nothingLeft(cluster, moorage);
  });

  async function volumeOf(set: string): Promise<string> {
    return cluster.kubectl('get', 'pvc', `data-${set}-0`, '-ojsonpath={.spec.volumeName}');
  }

  async function drainAndDelete({ name }: ClusterNode): Promise<void> {
    await cluster.kubectl('drain', name, '--ignore-daemonsets', '--delete-emptydir-data', '--force');
    await cluster.kubectl('delete', 'node', name);
  }
});
