import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { logicalVolumes } from '../../src/api/logical-volume.ts';
import type { Cluster } from '../../worlds/cluster/cluster.ts';
import { volumeGroup } from '../../worlds/cluster/cluster-node.ts';
import type { Moorage } from '../../worlds/cluster/moorage.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { sharedCluster } from './shared-cluster.ts';
import { StatefulSet } from './stateful-set.ts';

describe('one volume from claim to removal', () => {
  let cluster: Cluster;
  let moorage: Moorage;
  before(async () => {
    ({ cluster, moorage } = await sharedCluster());
  });

  test('a claim becomes a logical volume with ext4, mounted in its pod', async () => {
    const set = await StatefulSet.create(cluster, 'first');
    await set.ready();

    const id = await set.volumeId();
    const node = cluster.node(await set.nodeOf());
    assert.match(
      await node.shell(`lvs --noheadings --units m -o lv_name,lv_size ${volumeGroup}`),
      new RegExp(`${id} +100.00m`),
    );
    assert.match(await cluster.kubectl('exec', 'first-0', '--', 'grep', ' /data ', '/proc/mounts'), / ext4 /);
    await eventually('its claim has the events', async () =>
      /VolumeCreated .*created a volume of 100Mi on node node-/.test(
        await cluster.kubectl('describe', 'pvc', 'data-first-0'),
      ),
    );

    await set.delete();
    await moorage.whenNoVolumes();
    assert.equal(
      (await node.shell(`lvs --noheadings -o lv_name ${volumeGroup}`)).trim(),
      '',
      'its space is free again',
    );
  });

  test('data survives the pod that wrote it', async () => {
    const set = await StatefulSet.create(cluster, 'kept');
    await set.ready();
    const written = await set.lines();

    await set.replacePod();

    assert.deepEqual((await set.lines()).slice(0, 1), written);
    assert.equal((await set.lines()).length, 2);
    await set.delete();
    await moorage.whenNoVolumes();
  });

  test('data survives a power loss of its node', async () => {
    const set = await StatefulSet.create(cluster, 'durable');
    await set.ready();
    const written = await set.lines();
    const node = cluster.node(await set.nodeOf());

    await node.kill();
    await node.boot();

    const lines = await eventually('the pod has written again', async () => {
      const now = await set.lines();
      return now.length > 1 && now;
    });
    assert.deepEqual(lines.slice(0, 1), written);
    await set.delete();
    await moorage.whenNoVolumes();
  });

  test('a file pool needs no spare disk and no device mapper', async () => {
    const set = await StatefulSet.create(cluster, 'filed', { storageClass: 'moorage-file' });
    await set.ready();
    const node = cluster.node(await set.nodeOf());
    assert.match(await node.shell('losetup --list --noheadings -O BACK-FILE'), new RegExp(await set.volumeId()));

    await set.replacePod();

    assert.equal((await set.lines()).length, 2);
    await set.delete();
    await moorage.whenNoVolumes();
    assert.equal((await node.shell('losetup --list --noheadings')).trim(), '', 'no loop device is left');
  });

  test('a claim that fits on no node stays pending, with an event that says why', async () => {
    const set = await StatefulSet.create(cluster, 'huge', { size: '100Gi' });

    const reason = await eventually('the scheduler has reported an event', async () => {
      const path = '{.items[?(@.reason=="FailedScheduling")].message}';
      const message = await cluster.kubectl(
        'get',
        'events',
        '--field-selector=involvedObject.name=huge-0',
        `-ojsonpath=${path}`,
      );
      return message !== '' && message;
    });

    assert.match(reason, /not have enough free storage/);
    await set.delete();
    await moorage.whenNoVolumes();
  });

  test('a volume is created even if controller and agents are killed meanwhile', async () => {
    const set = await StatefulSet.create(cluster, 'stubborn');
    await eventually('the volume is requested', async () => (await cluster.kube.list(logicalVolumes)).items.length > 0);

    await moorage.killController();
    for (const node of cluster.nodes) await moorage.killAgent(node);

    await set.ready();
    await set.delete();
    await moorage.whenNoVolumes();
  });

  test('metrics show what controller and agent do', async () => {
    const set = await StatefulSet.create(cluster, 'watched');
    await set.ready();
    const node = cluster.node(await set.nodeOf());

    const agent = await moorage.metrics(await moorage.agentOn(node));
    const controller = await moorage.metrics(await moorage.controller());

    const volume = `node="${node.name}",device_class="lvm",volume="${await set.volumeId()}",claim="default/data-watched-0"`;
    assert.ok(agent.includes(`moorage_volume_size_bytes{${volume}} 104857600`));
    assert.match(agent, new RegExp(`moorage_volume_used_bytes{${volume}} [1-9]`));
    assert.match(
      agent,
      /moorage_call_seconds_count\{service="csi.v1.Node",method="NodePublishVolume",code="OK"\} [1-9]/,
    );
    assert.match(
      agent,
      /moorage_pool_operation_seconds_count\{device_class="lvm",operation="create",code="OK"\} [1-9]/,
    );
    assert.match(
      agent,
      new RegExp(`topolvm_volumegroup_available_bytes{node="${node.name}",device_class="lvm"} [1-9]`),
    );
    assert.match(agent, /moorage_watch_synced\{watch="logicalvolumes"\} 1/);
    assert.match(
      controller,
      /moorage_call_seconds_count\{service="csi.v1.Controller",method="CreateVolume",code="OK"\} [1-9]/,
    );
    assert.match(controller, /moorage_watch_synced\{watch="nodes"\} 1/);
    await set.delete();
    await moorage.whenNoVolumes();
  });

  test('a volume costs two writes to the API', async () => {
    const before = await logicalVolumeWrites(cluster);
    const set = await StatefulSet.create(cluster, 'frugal');
    await set.ready();

    const spent = (await logicalVolumeWrites(cluster)) - before;

    assert.equal(spent, 2, 'one POST by the controller, one PATCH by the node');
    await set.delete();
    await moorage.whenNoVolumes();
  });
});

/** Counted by the API server. */
async function logicalVolumeWrites(cluster: Cluster): Promise<number> {
  const metrics = await cluster.kubectl('get', '--raw', '/metrics');
  return metrics
    .split('\n')
    .filter((line) => line.startsWith('apiserver_request_total{') && line.includes('resource="logicalvolumes"'))
    .filter((line) => /verb="(POST|PUT|PATCH|APPLY|DELETE)"/.test(line))
    .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0);
}
