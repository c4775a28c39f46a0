import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { capacityAnnotationPrefix, defaultCapacityAnnotation, onNodeRemoval } from '../../src/api/names.ts';
import type { ReasonCode } from '../../src/explain/explanation.ts';
import { csiNodes, nodes, persistentVolumeClaims, persistentVolumes, pods } from '../../src/kube/resource.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { on, size, WhyWorld } from './why-world.ts';

/**
 * Why no node can run a pod: each reason with a real scheduler. Each test has nodes of its own, which its pods select by name,
 * or by the label `of`.
 */
const world = await WhyWorld.start('shop', { callTimeout: '10m' });
const { admin, namespace } = world;

const of = (group: string) => ({ nodeSelector: { of: group } });

describe('a pod waits', { concurrency: true }, () => {
  test('for room', async () => {
    await world.node('roomy', { free: 12n, labels: { of: 'room' } });
    await world.node('narrow', { free: 3n, labels: { of: 'room' } });
    await world.claim('large');
    await world.pod('large', ['large'], of('room'));
    await world.isStuck(
      'NoRoom',
      'large',
      'no node that it can run on has 20 GiB free: narrow has 3 GiB and roomy has 12 GiB; free space, add a disk, or request less',
    );
    await world.storageClass('nvme', { parameters: { 'topolvm.io/device-class': 'nvme' } });
    await world.claim('nvme', { storageClassName: 'nvme' });
    await world.pod('nvme', ['nvme'], of('room'));
    await world.isStuck(
      'DeviceClassMissing',
      'nvme',
      'no node that it can run on has device class nvme; use a StorageClass with a device class that nodes have',
    );
    await world.node('silent', { reports: false, labels: { of: 'silence' } });
    await world.claim('quiet');
    await world.pod('quiet', ['quiet'], of('silence'));
    await world.isStuck(
      'RoomUnknown',
      'quiet',
      'no node can run it: silent (it does not report any free space); start the agent of Moorage on silent',
    );
  });

  test('for room for all of its claims', async () => {
    await world.node('shared', { free: 30n, poolGibi: 30n, labels: { of: 'sharing' } });
    const file = await world.file(`
apiVersion: apps/v1
kind: StatefulSet
metadata: { name: pair }
spec:
  template: { spec: { nodeSelector: { of: sharing }, containers: [{ name: main, image: db }] } }
  volumeClaimTemplates:
    - metadata: { name: data }
      spec: { accessModes: [ReadWriteOnce], storageClassName: fast, resources: { requests: { storage: 20Gi } } }
    - metadata: { name: log }
      spec: { accessModes: [ReadWriteOnce], storageClassName: fast, resources: { requests: { storage: 20Gi } } }
`);
    await world.published('shared', '30Gi');
    const { items } = JSON.parse(await world.print('-f', file, '-ojson')) as {
      items: { code: string; sentence: string }[];
    };
    assert.deepEqual(
      items.map(({ code, sentence }) => [code, sentence]),
      [
        [
          'NoRoomTogether',
          'StatefulSet pair would wait: no node can run it: shared (it has 30 GiB free, and the claims of the pod request 40 GiB together); free space, add a disk, or request less',
        ],
      ],
    );
  });

  test('for the node that has its data', async (t) => {
    await world.node('home', { labels: { 'topology.kubernetes.io/zone': 'west' } });
    await world.node('other');
    for (const name of ['stays', 'log']) await world.volume(name, name === 'log' ? 'other' : 'home', size('1Gi'));
    t.after(() => world.patchNode('home', { spec: { unschedulable: null, taints: null } }));
    const stuck = async (...[code, name, spec, sentence]: [ReasonCode, string, object, string]) => {
      await world.pod(name, ['stays'], spec);
      await world.isStuck(code, name, sentence);
    };
    await stuck(
      'NodeExcluded',
      'excluded',
      on('other'),
      'its data is on node home: it does not have the label kubernetes.io/hostname=other; change the pod so that it can run on home, or move its volume',
    );
    await stuck(
      'NodeFull',
      'hungry',
      { containers: [{ name: 'main', image: 'pause', resources: { requests: { cpu: '5' } } }] },
      'its data is on node home: it has 4 cpu left, 5 requested; request less, or move its volume to a larger node',
    );
    await world.pod('apart', ['stays', 'log']);
    await world.isStuck(
      'VolumesApart',
      'apart',
      'its data is on different nodes, that of claim stays on node home and that of claim log on node other; move a volume to the node of the other',
    );
    await world.patchNode('home', { spec: { unschedulable: true } });
    await stuck(
      'NodeCordoned',
      'cordoned',
      {},
      'its data is on node home, which is cordoned; run kubectl uncordon home',
    );
    await world.patchNode('home', {
      spec: { unschedulable: null, taints: [{ key: 'disk', value: 'old', effect: 'NoSchedule' }] },
    });
    await stuck(
      'NodeTainted',
      'tainted',
      {},
      'its data is on node home: it has the taint disk=old:NoSchedule; remove the taint, or give the pod a toleration',
    );
    await world.patchNode('home', { spec: { taints: null } });
    const pvName = (await admin.get(persistentVolumeClaims, 'stays', { namespace }))?.spec?.volumeName ?? '';
    const labels = { 'topology.kubernetes.io/zone': 'east' };
    await admin.patch(persistentVolumes, pvName, { type: 'merge', body: { metadata: { labels } } });
    await stuck(
      'ZoneLabel',
      'zoned',
      {},
      'a PersistentVolume of its claims has a zone label that no node has; remove the label topology.kubernetes.io/zone',
    );
  });

  test('for a node that is down, or gone', async () => {
    await world.node('dark');
    await world.node('gone');
    await world.volume('dark', 'dark', size('1Gi'));
    await world.volume('gone', 'gone', size('1Gi'));
    await world.volume('lamp', 'dark', size('1Gi'));
    await world.pod('lamp', ['lamp']);
    await eventually('the pod has its node', async () => {
      return Boolean((await admin.get(pods, 'lamp', { namespace }))?.spec?.nodeName);
    });
    const running = { type: 'merge', body: { status: { phase: 'Running' } } } as const;
    await admin.patch(pods, 'lamp', running, { namespace, subresource: 'status' });
    assert.match(await world.becomes('Fine', 'pod/lamp'), /^pod lamp runs on node dark/);
    await world.machines.powerOff('dark');
    await world.pod('dark', ['dark']);
    await world.isStuck('NodeNotReady', 'dark', 'its data is on node dark, which is not ready; start node dark');
    assert.equal(
      await world.becomes('NodeNotReady', 'pvc/lamp'),
      'claim lamp waits: pod lamp is not ready: it is on node dark, and it is not ready; start node dark',
    );
    await world.becomes('NodeNotReady', 'pod/lamp');
    const annotations = { [onNodeRemoval.annotation]: 'wait' };
    await admin.patch(
      persistentVolumeClaims,
      'gone',
      { type: 'merge', body: { metadata: { annotations } } },
      { namespace },
    );
    world.machines.forget('gone');
    await admin.delete(nodes, 'gone');
    await eventually('the node is gone', async () => ((await admin.get(nodes, 'gone')) ? undefined : true));
    await world.pod('gone', ['gone']);
    await world.isStuck(
      'NodeGone',
      'gone',
      'its data is on node gone, which no longer exists; bring the node back, or give the data up',
    );
  });

  test('for the node that a claim is assigned to', async () => {
    await world.node('slow', { hasAgent: false });
    await world.claim('assigned', size('1Gi'));
    await world.pod('assigned', ['assigned'], on('slow'));
    await world.becomes('BeingCreated', 'pvc/assigned');
    await admin.delete(pods, 'assigned', { namespace, gracePeriodSeconds: 0 });
    await world.patchNode('slow', { spec: { unschedulable: true } });
    await world.pod('later', ['assigned']);
    await world.isStuck(
      'PinnedToNode',
      'later',
      'its claim assigned is assigned to node slow, which is cordoned; run kubectl uncordon slow',
    );
  });

  test('for any node, which the scheduler alone can say', async () => {
    await world.node('shut', { labels: { of: 'several' } });
    await world.node('stained', { labels: { of: 'several' } });
    await world.patchNode('shut', { spec: { unschedulable: true } });
    await world.patchNode('stained', { spec: { taints: [{ key: 'disk', effect: 'NoSchedule' }] } });
    await world.claim('anywhere', size('1Gi'));
    await world.pod('anywhere', ['anywhere'], of('several'));
    await world.isStuck(
      'NoNodeLeft',
      'anywhere',
      'no node can run it: shut (it is cordoned) and stained (it has the taint disk:NoSchedule); remove an obstacle',
    );
    await world.node('single', { labels: { of: 'one' } });
    const labels = { spread: 'yes' };
    const constraint = {
      maxSkew: 1,
      topologyKey: 'rack',
      whenUnsatisfiable: 'DoNotSchedule',
      labelSelector: { matchLabels: labels },
    };
    await world.claim('spread', size('1Gi'));
    await world.pod('spread', ['spread'], { ...of('one'), topologySpreadConstraints: [constraint] });
    await world.becomesUnschedulable('spread');
    assert.match(
      await world.becomes('NotScheduled', 'pod/spread'),
      /^pod spread waits: the scheduler says: 0\/\d+ nodes are available: .*didn't match pod topology spread constraints/,
    );
  });

  test('because its node may have no more volumes of another driver', async () => {
    await world.node('limited', { hasAgent: false, hasDriver: false });
    const driver = { name: 'other.example.com', nodeID: 'limited', topologyKeys: null, allocatable: { count: 1 } };
    await admin.patch(csiNodes, 'limited', { type: 'merge', body: { spec: { drivers: [driver] } } });
    await world.storageClass('other', { provisioner: 'other.example.com', volumeBindingMode: 'Immediate' });
    for (const name of ['disk-1', 'disk-2']) {
      await admin.create(persistentVolumes, {
        metadata: { name },
        spec: {
          accessModes: ['ReadWriteOnce'],
          capacity: { storage: '1Gi' },
          storageClassName: 'other',
          csi: { driver: 'other.example.com', volumeHandle: name },
        },
      });
      await world.claim(name, { storageClassName: 'other', volumeName: name, ...size('1Gi') });
    }
    await world.pod('served', ['disk-1'], on('limited'));
    await world.becomes('Starting', 'served');
    await world.pod('surplus', ['disk-2'], on('limited'));
    await world.isStuck(
      'VolumeLimit',
      'surplus',
      'no node may have more volumes of another driver; add a node, or run fewer pods with such volumes',
    );
  });
});

test('the scheduler does not know what the nodes report, because the controller does not publish it', async (t) => {
  await world.node('late', { free: 1n, labels: { of: 'late' } });
  await world.claim('late');
  await world.pod('late', ['late'], of('late'));
  await world.isStuck(
    'NoRoom',
    'late',
    'no node that it can run on has 20 GiB free: late has 1 GiB; free space, add a disk, or request less',
  );
  await world.published('late', '1Gi');
  await world.controller.pause();
  t.after(() => world.controller.resume());
  const bytes = String(50n * 1024n ** 3n);
  const annotations = { [defaultCapacityAnnotation]: bytes, [`${capacityAnnotationPrefix}ssd`]: bytes };
  await world.patchNode('late', { metadata: { annotations } });
  assert.equal(
    await world.becomes('RoomOutdated', 'pod/late'),
    "pod late waits: no node can run it: late (the scheduler counts 1 GiB free, but it has 50 GiB; 20 GiB requested); see whether Moorage's controller runs, which publishes the free space",
  );
  await world.storageClass('unpublished');
  await world.claim('unpublished', { storageClassName: 'unpublished' });
  await world.pod('unpublished', ['unpublished'], of('late'));
  await world.isStuck(
    'RoomUnknown',
    'unpublished',
    "no node can run it: late (the scheduler does not know its free space: no CSIStorageCapacity of class unpublished); see whether Moorage's controller runs, which publishes the free space",
  );
});
