import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Pod } from '../kube/resource.ts';
import {
  changeWarning,
  type Placement,
  type PodOnVolumeNode,
  podsAfterChange,
  type Workload,
} from './inline-change.ts';
import { node, pod } from './testing/objects.ts';

const selector = { matchLabels: { app: 'db' } };
const withCpu = (cpu: string) => [{ name: 'main', image: 'db', resources: { requests: { cpu } } }];

function statefulSet(replicas: number, podSpec: Partial<Pod['spec']> = {}): Workload {
  return {
    kind: 'StatefulSet',
    metadata: { name: 'db', namespace: 'prod' },
    spec: {
      replicas,
      selector,
      serviceName: 'db',
      template: { metadata: { labels: { app: 'db' } }, spec: { containers: withCpu('1'), ...podSpec } },
      volumeClaimTemplates: [{ metadata: { name: 'data' }, spec: {} }],
    },
  };
}

function deployment(type: string, cpu: string): Workload {
  const volumes = [{ name: 'data', persistentVolumeClaim: { claimName: 'shared' } }];
  return {
    kind: 'Deployment',
    metadata: { name: 'web', namespace: 'prod' },
    spec: { selector, strategy: { type }, template: { spec: { containers: withCpu(cpu), volumes } } },
  };
}

/** Nodes a and b with 4 CPUs each; the nodes of the volumes, by claim. */
function placement(volumes: Record<string, string>, pods: readonly Pod[] = []): Placement {
  return {
    volumes: async (namespace) =>
      new Map(namespace === 'prod' ? Object.keys(volumes).map((claim) => [claim, `pv-${claim}`]) : []),
    nodeOf: async (volume) => volumes[volume.slice('pv-'.length)],
    facts: async (name) =>
      ['a', 'b'].includes(name)
        ? { node: node(name, 1n), pods: pods.filter(({ spec }) => spec?.nodeName === name) }
        : undefined,
    nodes: async () => [node('a', 1n), node('b', 1n)],
  };
}

const running = (name: string, nodeName: string, cpu: string, labels: object = {}) =>
  pod(name, [], { metadata: { labels }, spec: { nodeName, containers: withCpu(cpu) } });

async function all(workload: Workload, where: Placement): Promise<readonly PodOnVolumeNode[]> {
  const found: PodOnVolumeNode[] = [];
  for await (const each of podsAfterChange(workload, where)) found.push(each);
  return found;
}

/** As `pod on node: obstacles`. */
async function seen(workload: Workload, where: Placement): Promise<readonly string[]> {
  const found = await all(workload, where);
  return found.map((each) => `${each.pod} on ${each.node}: ${each.obstacles.join(', ')}`);
}

test('each pod is checked on the node of its volume, and pods without a volume of ours are left out', async () => {
  const where = placement({ 'data-db-0': 'a', 'data-db-2': 'b' });
  assert.deepEqual(await seen(statefulSet(3), where), ['db-2 on b: ', 'db-0 on a: ']);
});

test('any number of replicas is checked, by the volumes that exist', async () => {
  const where = placement({ 'data-db-0': 'a', 'data-db-7': 'b', 'data-db-01': 'b', 'data-other-1': 'b', shared: 'a' });
  for (const replicas of [2 ** 31 - 1, Number.POSITIVE_INFINITY]) {
    assert.deepEqual(await seen(statefulSet(replicas), where), ['db-7 on b: ', 'db-0 on a: ']);
  }
  assert.deepEqual(await seen(statefulSet(-1), where), []);

  const volumes = [{ name: 'data', persistentVolumeClaim: { claimName: 'shared' } }];
  const found = await seen(statefulSet(2 ** 31 - 1, { volumes }), where);
  assert.equal(found[0], 'db-2147483646 on a: ');
  assert.equal(found[4], 'db-2147483642 on a: it has 0 cpu left, 1 requested');
  assert.equal(found.length, 252);
});

test('what the containers of a template request is summed up once, not for each pod on each node', async () => {
  let read = 0;
  const container = {
    name: 'main',
    get resources() {
      read += 1;
      return { requests: { cpu: '40' } };
    },
  };
  const volumes = [{ name: 'data', persistentVolumeClaim: { claimName: 'shared' } }];
  const found = await seen(statefulSet(100, { volumes, containers: [container] }), placement({ shared: 'a' }));
  assert.equal(found.length, 100);
  assert.equal(found[1], 'db-98 on a: it has 0 cpu left, 40 requested');
  assert.equal(read, 1);
});

test('a pod is not looked at before it is asked for', async () => {
  const where = placement({ 'data-db-0': 'a', 'data-db-1': 'a' });
  const volumes: string[] = [];
  const nodeOf = async (volume: string) => {
    volumes.push(volume);
    return where.nodeOf(volume);
  };
  for await (const { pod: first } of podsAfterChange(statefulSet(2), { ...where, nodeOf })) {
    assert.equal(first, 'db-1');
    break;
  }
  assert.deepEqual(volumes, ['pv-data-db-1']);
});

test('a claim that a template mounts many times is looked at once', async () => {
  const claimed = { persistentVolumeClaim: { claimName: 'shared' } };
  const volumes = [
    { name: 'x', ...claimed },
    { name: 'y', ...claimed },
  ];
  const where = placement({ shared: 'a' });
  const [found] = await all(statefulSet(1, { volumes }), where);
  assert.deepEqual(found?.claims, ['shared']);
});

test('a selector or a request that the node does not meet is an obstacle', async () => {
  const where = placement({ 'data-db-0': 'a' }, [running('other', 'a', '3')]);
  const obstacles = 'it does not have the label disk=nvme, it has 1 cpu left, 2 requested';
  const change = { nodeSelector: { disk: 'nvme' }, containers: withCpu('2') };
  assert.deepEqual(await seen(statefulSet(1, change), where), [`db-0 on a: ${obstacles}`]);
});

test('the pod that is replaced takes no room, and one that was replaced before takes what it needs now', async () => {
  const pods = [running('db-0', 'a', '2'), running('db-1', 'a', '1')];
  const where = placement({ 'data-db-0': 'a', 'data-db-1': 'a' }, pods);
  assert.deepEqual(await seen(statefulSet(2, { containers: withCpu('2') }), where), ['db-1 on a: ', 'db-0 on a: ']);
  assert.deepEqual(await seen(statefulSet(2, { containers: withCpu('2500m') }), where), [
    'db-1 on a: it has 2 cpu left, 2500m requested',
    'db-0 on a: it has 1500m cpu left, 2500m requested',
  ]);
});

test('old pods of a Deployment need room beside the new one, unless they are ended first', async () => {
  const where = placement({ shared: 'a' }, [running('web-1', 'a', '3', { app: 'db' })]);
  assert.deepEqual(await seen(deployment('RollingUpdate', '2'), where), ['web on a: it has 1 cpu left, 2 requested']);
  assert.deepEqual(await seen(deployment('Recreate', '2'), where), ['web on a: ']);
});

test('a node that is gone, and volumes on two nodes, are obstacles', async () => {
  assert.deepEqual(await seen(statefulSet(1), placement({ 'data-db-0': 'gone' })), [
    'db-0 on gone: it is not in the cluster',
  ]);
  const both: Workload = { ...pod('one', ['x', 'y']), kind: 'Pod' };
  assert.deepEqual(await seen(both, placement({ x: 'a', y: 'b' })), ['one on a: the data of claim y is on node b']);
});

test('a warning says why, and how to move the data unless no node is large enough', async () => {
  const warnings = async (change: Partial<Pod['spec']>) =>
    (await all(statefulSet(1, change), placement({ 'data-db-0': 'a' }))).map(changeWarning);
  const start = 'pod db-0 would not start again on node a, where its data is:';
  assert.deepEqual(await warnings({ nodeSelector: { disk: 'nvme' } }), [
    `${start} it does not have the label disk=nvme; first move the data: kubectl moorage migrate pvc/data-db-0 -n prod --to NODE`,
  ]);
  assert.deepEqual(await warnings({ containers: withCpu('40') }), [
    `${start} it has 4 cpu left, 40 requested; no node is large enough; request less`,
  ]);
});
