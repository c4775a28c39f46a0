import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { logicalVolumes } from '../../src/api/logical-volume.ts';
import type { Cluster } from '../../worlds/cluster/cluster.ts';
import { volumeGroup } from '../../worlds/cluster/cluster-node.ts';
import type { Moorage } from '../../worlds/cluster/moorage.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { nothingLeft } from './nothing-left.ts';
import { sharedCluster } from './shared-cluster.ts';
import { StatefulSet } from './stateful-set.ts';
import { story } from './story.ts';

describe('one volume from claim to removal', () => {
  let cluster: Cluster;
  let moorage: Moorage;
  const afterwards = story();
  before(async () => {
    ({ cluster, moorage } = await sharedCluster());
  });

  test('a claim becomes a logical volume with ext4, mounted in its pod', async (t) => {
    const set = await StatefulSet.forTest(t, cluster, 'first');
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

  test('data survives the pod that wrote it', async (t) => {
    const set = await StatefulSet.forTest(t, cluster, 'kept');
    await set.ready();
    const written = await set.lines();

    await set.replacePod();

    assert.deepEqual((await set.lines()).slice(0, 1), written);
    assert.equal((await set.lines()).length, 2);
  });

  test('data survives a power loss of its node', async (t) => {
    const set = await StatefulSet.forTest(t, cluster, 'durable');
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
  });

  test('a file pool needs no spare disk and no device mapper', async (t) => {
    const set = await StatefulSet.forTest(t, cluster, 'filed', { storageClass: 'moorage-file' });
    await set.ready();
    const node = cluster.node(await set.nodeOf());
    assert.match(await node.shell('losetup --list --noheadings -O BACK-FILE'), new RegExp(await set.volumeId()));

    await set.replacePod();

    assert.equal((await set.lines()).length, 2);
    await set.delete();
    await moorage.whenNoVolumes();
    assert.equal((await node.shell('losetup --list --noheadings')).trim(), '', 'no loop device is left');
  });

  test('a claim that fits on no node stays pending, with an event that says why', async (t) => {
    await StatefulSet.forTest(t, cluster, 'huge', { size: '100Gi' });

    await eventually('the scheduler has reported why', async () => {
      const path = '{.items[?(@.reason=="FailedScheduling")].message}';
      const message = await cluster.kubectl(
        'get',
        'events',
        '--field-selector=involvedObject.name=huge-0',
        `-ojsonpath=${path}`,
      );
      return message.includes('not have enough free storage');
    });
  });

  test('a volume is created even if controller and agents are killed meanwhile', async (t) => {
    const set = await StatefulSet.forTest(t, cluster, 'stubborn');
    await eventually('the volume is requested', async () => (await cluster.kube.list(logicalVolumes)).items.length > 0);

    await moorage.killController();
    for (const node of cluster.nodes) await moorage.killAgent(node);

    await set.ready();
    for (const node of cluster.nodes) await moorage.whenServing(node);
  });

  test('metrics show what controller and agent do', async (t) => {
    const set = await StatefulSet.forTest(t, cluster, 'watched');
    await set.ready();
    const node = cluster.node(await set.nodeOf());

    const volume = `node="${node.name}",device_class="lvm",volume="${await set.volumeId()}",claim="default/data-watched-0"`;
    const ofAgent = [
      `moorage_volume_size_bytes{${volume}} 104857600`,
      `moorage_volume_used_bytes{${volume}} [1-9]`,
      'moorage_call_seconds_count{service="csi.v1.Node",method="NodePublishVolume",code="OK"} [1-9]',
      'moorage_pool_operation_seconds_count{device_class="lvm",operation="create",code="OK"} [1-9]',
      `topolvm_volumegroup_available_bytes{node="${node.name}",device_class="lvm"} [1-9]`,
      'moorage_watch_synced{watch="logicalvolumes"} 1',
    ];
    const ofController = [
      'moorage_call_seconds_count{service="csi.v1.Controller",method="CreateVolume",code="OK"} [1-9]',
      'moorage_watch_synced{watch="nodes"} 1',
    ];
    // Usage is read now and then.
    await eventually('both show it', async () => {
      const [agent, controller] = [await moorage.agentOn(node), await moorage.controller()];
      shows(await moorage.metrics(agent), ofAgent);
      shows(await moorage.metrics(controller), ofController);
      return true;
    });
  });

  test('a volume costs two writes to the API', async (t) => {
    let before = -1;
    await eventually('all earlier writes are counted', async () => {
      const earlier = before;
      before = await logicalVolumeWrites(cluster);
      return before === earlier;
    });
    const set = await StatefulSet.forTest(t, cluster, 'frugal');
    await set.ready();

    const spent = (await logicalVolumeWrites(cluster)) - before;

    assert.equal(spent, 2, 'one POST by the controller, one PATCH by the node');
  });

  afterwards('nothing is left on the nodes', () => nothingLeft(cluster, moorage));
});

/** Each line begins like this, up to the `[1-9]` of one whose number is not zero. */
function shows(metrics: string, lines: readonly string[]): void {
  for (const line of lines) {
    const start = line.replace('[1-9]', '');
    const found = metrics.split('\n').find((each) => each.startsWith(start));
    assert.ok(found && (start === line || /^[1-9]/.test(found.slice(start.length))), `${line}: ${found}`);
  }
}

/** Counted by the API server. */
async function logicalVolumeWrites(cluster: Cluster): Promise<number> {
  const metrics = await cluster.kubectl('get', '--raw', '/metrics');
  return metrics
    .split('\n')
    .filter((line) => line.startsWith('apiserver_request_total{') && line.includes('resource="logicalvolumes"'))
    .filter((line) => /verb="(POST|PUT|PATCH|APPLY|DELETE)"/.test(line))
    .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0);
}
