import assert from 'node:assert/strict';
import { test } from 'node:test';
import { localPvAnnotations, localPvFinalizer } from '../../api/local-pv.ts';
import type { StoredLogicalVolume } from '../../api/logical-volume.ts';
import { driverName } from '../../api/names.ts';
import type { PersistentVolume, Stored } from '../../kube/resource.ts';
import { nodeOfTest, podOfTest } from '../../moves/testing/nodes-and-pods.ts';
import { evacuationScreen, refuseUnknownNodes } from './evacuation.ts';
import { type EvacuationFacts, planEvacuation } from './evacuation-plan.ts';

const gibi = 1024 ** 3;
const meta = (name: string) => ({ name, uid: `uid-${name}`, resourceVersion: '1', creationTimestamp: '' });

/** A volume of node a, and its PersistentVolume, bound to a claim of the same name. */
function volume(name: string, gib: number, phase = 'Bound'): [StoredLogicalVolume, Stored<PersistentVolume>] {
  const handle = `uid-${name}`;
  return [
    {
      metadata: meta(name),
      spec: { name, nodeName: 'a', size: `${gib}Gi`, deviceClass: 'ssd' },
      status: { volumeID: handle, currentSize: `${gib}Gi` },
    },
    {
      metadata: meta(name),
      spec: { csi: { driver: driverName, volumeHandle: handle }, claimRef: { namespace: 'prod', name } },
      status: { phase },
    },
  ];
}

const using = (...claims: string[]) => ({
  volumes: claims.map((claimName) => ({ name: claimName, persistentVolumeClaim: { claimName } })),
  terminationGracePeriodSeconds: 10,
});
const free = (name: string, gib: number) =>
  nodeOfTest(name, { metadata: { annotations: { 'capacity.topolvm.io/ssd': String(gib * gibi) } } });

function plan(
  volumes: readonly (readonly [StoredLogicalVolume, Stored<PersistentVolume>])[],
  change: Partial<EvacuationFacts> = {},
) {
  const found = planEvacuation({
    nodeName: 'a',
    targetNode: undefined,
    stopBarePods: false,
    nodes: [free('a', 50), free('b', 10), free('c', 8)],
    volumes: volumes.map(([each]) => each),
    persistentVolumes: volumes.map(([, each]) => each),
    pods: [],
    moving: new Set<string>(),
    ...change,
  });
  return {
    ...found,
    words: [
      ...found.moves.map(({ claim, to }) => `${claim} to ${to}`),
      ...found.staying.map(({ what, reason, isLost }) => `${what} ${isLost ? 'is lost' : 'stays'}: ${reason}`),
    ],
  };
}

test('each volume goes to the node with the most room, which then has less; the largest is first', () => {
  const { words, totalBytes } = plan([volume('three', 4), volume('one', 6), volume('two', 5)]);
  assert.deepEqual(words, ['one to b', 'two to c', 'three to b']);
  assert.equal(totalBytes, 15n * 1024n ** 3n);
});

test('what does not fit stays, with the reason', () => {
  const { words } = plan([volume('one', 6), volume('two', 5)], { targetNode: 'b' });
  assert.deepEqual(words, ['one to b', 'claim prod/two stays: node b: it has 4 GiB free, 5 GiB are needed']);
});

test('the volumes of a pod go together, and only where the pod may run', () => {
  const both = [volume('data', 5), volume('wal', 4), volume('other', 1)];
  const pods = [podOfTest('db-0', { spec: using('data', 'wal') }), podOfTest('web', { spec: using('other') })];
  const { words, moves } = plan(both, { pods });
  assert.deepEqual(words, ['data to b', 'wal to b', 'other to c']);
  assert.deepEqual(moves[0]?.pods, ['db-0']);
  assert.equal(moves[0]?.stopSeconds, 10);
  const tainted = nodeOfTest('b', { spec: { taints: [{ key: 'x', effect: 'NoSchedule' }] } });
  const { words: none } = plan(both, { pods, nodes: [tainted] });
  assert.match(none[0] ?? '', /^claim prod\/data stays: node b: .*pod db-0 cannot run there: it has the taint x/);
});

test('bare pods are stopped only with consent; inline volumes are lost; volumes without a claim and snapshots stay', () => {
  const bare = podOfTest('shell', { metadata: { ownerReferences: [] }, spec: using('one') });
  const inline = podOfTest('job', { spec: { volumes: [{ name: 'tmp', csi: { driver: driverName } }] } });
  const [source] = volume('one', 1);
  const snapshot: StoredLogicalVolume = {
    ...source,
    metadata: { ...meta('snap'), annotations: { 'moorage.dev/content-source': 'volume/uid-one' } },
    spec: { ...source.spec, source: 'one', accessType: 'ro' },
  };
  const volumes = [volume('one', 1), volume('old', 1, 'Released')];
  const facts = { pods: [bare, inline], volumes: [...volumes.map(([each]) => each), snapshot] };
  assert.deepEqual(plan(volumes, facts).words, [
    'LogicalVolume old stays: no claim is bound to it',
    'claim prod/one stays: nothing would start pod shell again; use --stop-bare-pods',
    'inline volume tmp of pod prod/job is lost: it ends with its pod',
  ]);
  const { moves } = plan(volumes, { ...facts, stopBarePods: true });
  assert.deepEqual(moves[0]?.snapshots, ['snap']);
});

test('a volume that moves already, or is not on the disks, does not move', () => {
  const [lost, persistentVolume] = volume('lost', 1);
  const missing = { ...lost, status: { ...lost.status, missingFrom: 'a' } };
  const { words } = plan([volume('one', 1), volume('two', 1), [missing, persistentVolume]], {
    moving: new Set(['prod/two']),
  });
  assert.deepEqual(words, [
    'one to b',
    'claim prod/two stays: it moves already; see kubectl moorage moves',
    'claim prod/lost stays: it is not on the disks of the node; see kubectl moorage orphans',
  ]);
});

test('no volume of a node that is not Ready moves', () => {
  const silent = nodeOfTest('a', { status: { conditions: [{ type: 'Ready', status: 'Unknown' }] } });
  const { words } = plan([volume('one', 1)], { nodes: [silent, free('b', 10)] });
  assert.deepEqual(words, ['claim prod/one stays: node a is not Ready, and a move needs its agent']);
});

test('a node that cannot be meant is refused', () => {
  const refuse = (nodeName: string, targetNode?: string) => () =>
    refuseUnknownNodes({ nodeName, targetNode, stopBarePods: false }, [free('a', 1), free('b', 1)]);
  refuse('a')();
  refuse('a', 'b')();
  assert.throws(refuse('c'), /^NoSuchNode: there is no node c; see kubectl get nodes$/);
  assert.throws(refuse('a', 'c'), /there is no node c; /);
  assert.throws(refuse('a', 'a'), /node a is to be emptied; name another one to move to/);
});

test('static volumes stay, and so do the other volumes of their pods', () => {
  const pinned: Stored<PersistentVolume> = {
    metadata: {
      ...meta('static'),
      annotations: { [localPvAnnotations.node]: 'a' },
      finalizers: [localPvFinalizer],
    },
    spec: {
      local: { path: '/mnt/pv/static' },
      claimRef: { namespace: 'prod', name: 'wal' },
      capacity: { storage: '2Gi' },
    },
    status: { phase: 'Bound' },
  };
  const [logical, persistent] = volume('data', 1);
  const facts = { pods: [podOfTest('db-0', { spec: using('data', 'wal') })], persistentVolumes: [persistent, pinned] };
  const { words, staying } = plan([[logical, persistent]], facts);
  assert.deepEqual(words, [
    'claim prod/data stays: pod db-0 also uses claim prod/wal, whose volume does not move',
    'static volume static stays: static volumes do not move',
  ]);
  assert.equal(staying[1]?.sizeBytes, 2n * 1024n ** 3n);
});

test('the screen says what moves where, how long it takes and what stays', () => {
  const { words: _, ...found } = plan([volume('one', 6), volume('big', 40)], {
    pods: [podOfTest('db-0', { spec: using('one') })],
  });
  const screen = evacuationScreen('a', found, undefined, { columns: undefined, colours: false });
  assert.match(screen, /prod\/one +b +6 GiB +≤ 62s +≤ 10s to stop \+ seconds +db-0/);
  assert.match(screen, /claim prod\/big +40 GiB +stays +node b: it has 10 GiB free, 40 GiB are needed/);
  assert.match(screen, /^1 volume fits: 6 GiB, one after the other, at most 62s at 100 MiB\/s\.$/m);

  const { words: __, ...empty } = plan([]);
  assert.equal(
    evacuationScreen('a', empty, undefined, { columns: undefined, colours: false }),
    'node a has no volumes',
  );
});
