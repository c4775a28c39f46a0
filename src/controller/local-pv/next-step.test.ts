import assert from 'node:assert/strict';
import { test } from 'node:test';
import { InvalidInput } from '../../base/errors.ts';
import type { PersistentVolume, Stored } from '../../kube/resource.ts';
import { noDefaults } from '../../local-pv/defaults.ts';
import { changeOf, type KnownNode, nextStep, type Surroundings } from './next-step.ts';

const prefix = 'local-pv.k8s.portavita.net/';
const held = 'moorage.dev/local-pv';
const protection = 'kubernetes.io/pv-protection';

interface Changes {
  readonly annotations?: Record<string, string>;
  readonly finalizers?: string[];
  readonly deletionTimestamp?: string;
  readonly spec?: Partial<NonNullable<PersistentVolume['spec']>>;
  readonly phase?: string;
}

function pv({ annotations = {}, finalizers = [protection], deletionTimestamp, spec, phase = 'Bound' }: Changes = {}) {
  const matchExpressions = [{ key: 'nodeid', operator: 'In', values: ['node07'] }];
  return {
    metadata: { name: 'data', uid: 'pv', resourceVersion: '7', annotations, finalizers, deletionTimestamp },
    spec: {
      local: { path: '/mnt/pv/data' },
      capacity: { storage: '1Gi' },
      nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions }] } },
      ...spec,
    },
    status: { phase },
  } as Stored<PersistentVolume>;
}

const node = (name: string, nodeid: string, fields: Partial<KnownNode> = {}): KnownNode => ({
  name,
  uid: `uid-of-${name}`,
  labels: { nodeid },
  isLeaving: false,
  ...fields,
});

function surroundings(nodes: readonly KnownNode[], fields: Partial<Surroundings> = {}): Surroundings {
  const byName = new Map(nodes.map((each) => [each.name, each]));
  return { nodes: byName, defaults: { get: () => noDefaults }, mountBase: '/mnt/pv', ...fields };
}

const [a, b] = [node('a', 'node07'), node('b', 'node08')];
const step = (changes: Changes, nodes: readonly KnownNode[] = [a, b], fields?: Partial<Surroundings>) =>
  nextStep(pv(changes), surroundings(nodes, fields));
const onA = { [`${prefix}node`]: 'a' };
const processed = { ...onA, [`${prefix}status`]: 'Processed' };
const withNode = { annotations: processed, finalizers: [protection, held] };
const claimRef = { namespace: 'shop', name: 'db', uid: 'claim' };

test('a volume gets the node that its node affinity matches', () => {
  assert.deepEqual(step({}), { kind: 'assign', nodeName: 'a' });
  assert.deepEqual(step({ annotations: { [`${prefix}node`]: 'node07' } }), { kind: 'assign', nodeName: 'a' });
  assert.deepEqual(step({ finalizers: [held] }), { kind: 'assign', nodeName: 'a' }, 'the annotation was removed');
});

test('a volume that no node, or more than one, can have is refused with the reason', () => {
  const message = (nodes: readonly KnownNode[], changes: Changes = {}) => {
    const next = step(changes, nodes);
    return next?.kind === 'refuse' ? next.message : next?.kind;
  };
  assert.match(message([b]) ?? '', /^no node matches spec.nodeAffinity: nodeid In \(node07\); label the node/);
  assert.match(message([node('a', 'node07', { isLeaving: true })]) ?? '', /^no node matches/);
  const five = ['a', 'c', 'd', 'e', 'f'].map((name) => node(name, 'node07'));
  assert.match(message(five) ?? '', /nodeid In \(node07\) matches 5 nodes, a, c, d and 2 more, but a volume is on one/);
  assert.match(message([a], { spec: { persistentVolumeReclaimPolicy: 'Delete' } }) ?? '', /Delete, .* use Retain/);
  assert.match(message([a], { annotations: { [`${prefix}vg`]: 'a b' } }) ?? '', /vg is "a b"/);
});

test('without valid defaults no new volume gets a node', () => {
  const defaults = {
    get() {
      throw new InvalidInput('the ConfigMap has invalid defaults');
    },
  };
  assert.deepEqual(step({}, [a], { defaults }), { kind: 'refuse', message: 'the ConfigMap has invalid defaults' });
  assert.equal(step(withNode, [a], { defaults }), undefined);
});

test('the same fault is written once', () => {
  const refused = step({}, []);
  assert.ok(refused?.kind === 'refuse');
  const annotations = { 'moorage.dev/message': refused.message };
  assert.equal(step({ annotations: { ...annotations, [`${prefix}status`]: 'Not-Processed-Errors' } }, []), undefined);
  assert.equal(step({ annotations: { ...annotations, [`${prefix}status`]: 'Processed' } }, []), undefined);
  assert.deepEqual(step({ annotations }, []), refused);
});

test('PersistentVolumes of others are left alone', () => {
  assert.equal(step({ spec: { local: { path: '/mnt/disks/a' } } }), undefined);
  assert.equal(
    nextStep({ ...pv(), spec: { nfs: { server: 'a', path: '/mnt/pv/data' } } }, surroundings([a])),
    undefined,
  );
  assert.equal(step({ deletionTimestamp: 'now' }), undefined, 'deleted before it got a node');
});

test('a volume with a node is left to its agent, whatever is wrong with it', () => {
  assert.equal(step(withNode), undefined);
  assert.equal(step({ ...withNode, spec: { persistentVolumeReclaimPolicy: 'Delete' } }), undefined);
  assert.equal(step({ ...withNode, deletionTimestamp: 'now' }), undefined);
});

test('a volume never moves: labels that now match another node, or none, are reported', () => {
  const report = (nodes: readonly KnownNode[]) => {
    const next = step(withNode, nodes);
    return next?.kind === 'report' ? `${next.event.reason}: ${next.event.message}` : next?.kind;
  };
  const says = /^NodeMismatch: the volume is on node a, but .* now matches b; a volume does not move: label node a as/;
  assert.match(report([node('a', 'other'), node('b', 'node07')]) ?? '', says);
  assert.match(report([node('a', 'other')]) ?? '', /now matches no node; /);
  assert.match(report([b]) ?? '', /^NodeGone: node a, which has the volume, is not in the cluster; bring it back/);
  assert.equal(report([a, node('c', 'node07')]), undefined, 'its own node still matches');
});

test('a deleted PersistentVolume loses the finalizer when its agent has removed the volume', () => {
  const deleted = { ...withNode, deletionTimestamp: 'now' };
  const removed = { ...processed, 'moorage.dev/removed': 'true' };
  assert.deepEqual(step({ ...deleted, annotations: removed }), { kind: 'removeFinalizer' });
  assert.deepEqual(step({ ...deleted, annotations: removed }, []), { kind: 'removeFinalizer' });
  assert.equal(step({ ...withNode, annotations: removed }), undefined, 'it is not deleted');
});

test('a deleted PersistentVolume loses the finalizer when it is not bound and its node does not exist', () => {
  const deleted = { annotations: processed, finalizers: [held], deletionTimestamp: 'now' };
  assert.deepEqual(step(deleted, [b]), { kind: 'giveUp', nodeName: 'a' });
  assert.equal(step({ ...deleted, finalizers: [protection, held] }, [b]), undefined);
  assert.equal(step(deleted, [node('a', 'other', { isLeaving: true })]), undefined, 'its agent may still run');
});

test('a volume becomes available after its agent has emptied it for the claim that it is still bound to', () => {
  const emptied = { ...withNode, annotations: { ...processed, 'moorage.dev/released': 'claim' }, phase: 'Released' };
  assert.deepEqual(step({ ...emptied, spec: { claimRef } }), { kind: 'makeAvailable' });
  const options = { [`${prefix}autoRelease`]: 'true', 'moorage.dev/on-release': 'keep' };
  const kept = { ...emptied, annotations: { ...emptied.annotations, ...options } };
  assert.equal(
    step({ ...kept, spec: { claimRef } }),
    undefined,
    'an agent of an earlier version answers without emptying',
  );
  assert.equal(step({ ...emptied, spec: { claimRef: { ...claimRef, uid: 'new' } } }), undefined);
  assert.equal(step({ ...emptied, phase: 'Bound', spec: { claimRef } }), undefined);
  assert.equal(step({ ...emptied, spec: {} }), undefined);
  assert.equal(step({ ...emptied, finalizers: [protection], spec: { claimRef } })?.kind, 'assign');
});

test('the record that its node was removed is withdrawn when a new Node has its name', () => {
  const recorded = (uid: string) => ({
    ...withNode,
    annotations: { ...processed, 'moorage.dev/node-removed': uid },
  });
  assert.deepEqual(step(recorded('uid-of-the-old-a')), { kind: 'forgetRemoval' });
  assert.equal(step(recorded('uid-of-a')), undefined, 'it is still being deleted');
});

test('assigning a node also adds the finalizer, and removes what an earlier attempt left', () => {
  const stale = {
    'moorage.dev/message': 'x',
    'moorage.dev/removed': 'true',
    [`${prefix}status`]: 'Not-Processed-Errors',
  };
  assert.deepEqual(changeOf({ kind: 'assign', nodeName: 'a' }, pv({ annotations: stale })), {
    metadata: {
      finalizers: [protection, held],
      annotations: {
        [`${prefix}node`]: 'a',
        [`${prefix}status`]: null,
        'moorage.dev/message': null,
        'moorage.dev/removed': null,
        'moorage.dev/released': null,
      },
    },
  });
});

test('a volume that k8s-local-pv has processed counts as processed, even after a failure', () => {
  const volume = pv({ annotations: { [`${prefix}status`]: 'Processed' } });
  const { annotations = {} } = changeOf({ kind: 'assign', nodeName: 'a' }, volume).metadata;
  assert.equal(annotations['moorage.dev/processed'], 'true');
  assert.ok(!(`${prefix}status` in annotations), 'it stays');
  assert.deepEqual(changeOf({ kind: 'refuse', message: 'no node' }, volume), {
    metadata: { annotations: { 'moorage.dev/message': 'no node' } },
  });
});

test('each other step changes only what it must', () => {
  const volume = pv(withNode);
  assert.deepEqual(changeOf({ kind: 'refuse', message: 'no node' }, pv()), {
    metadata: { annotations: { [`${prefix}status`]: 'Not-Processed-Errors', 'moorage.dev/message': 'no node' } },
  });
  assert.deepEqual(changeOf({ kind: 'makeAvailable' }, volume), {
    metadata: { annotations: { 'moorage.dev/released': null } },
    spec: { claimRef: null },
  });
  assert.deepEqual(changeOf({ kind: 'removeFinalizer' }, volume), { metadata: { finalizers: [protection] } });
  assert.deepEqual(changeOf({ kind: 'giveUp', nodeName: 'a' }, volume), { metadata: { finalizers: [protection] } });
});
