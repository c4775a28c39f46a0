import assert from 'node:assert/strict';
import { test } from 'node:test';
import { claimKey, driverName, reserve } from '../../api/names.ts';
import type { Node, PersistentVolumeClaim, Pod, Stored } from '../../kube/resource.ts';
import { nextStep, type Observed } from './next-step.ts';
import { toPlaceholder } from './placeholder.ts';

const common = { resourceVersion: '1', creationTimestamp: '2026-01-01T00:00:00Z' };
const ending = { deletionTimestamp: '2026-01-01T00:00:00Z' };

function claim(word?: string, metadata: object = {}): Stored<PersistentVolumeClaim> {
  const annotations = word === undefined ? {} : { [reserve.annotation]: word };
  return {
    metadata: { ...common, name: 'data-db-0', namespace: 'shop', uid: 'c', annotations, ...metadata },
    spec: {},
  };
}

function node(name: string, spec: Node['spec'] = {}): Stored<Node> {
  return { metadata: { ...common, name, uid: name }, spec };
}

function pod({ metadata = {}, spec = {}, status = {} }: { metadata?: object; spec?: object; status?: object }) {
  const found: Stored<Pod> = {
    metadata: { ...common, name: 'db-0', namespace: 'shop', uid: 'p', ...metadata },
    spec: { containers: [{ name: 'main' }], ...spec },
    status,
  };
  return found;
}

function placeholder(nominatedNodeName?: string, { uid = 'c', told = 'leader' } = {}): Stored<Pod> {
  const annotations = { [claimKey]: 'shop/data-db-0', [reserve.toldAnnotation]: told };
  const metadata = { name: `reserve-${uid}`, namespace: 'moorage-system', uid: `placeholder-of-${uid}`, annotations };
  return pod({ metadata, status: nominatedNodeName === undefined ? {} : { nominatedNodeName } });
}

const running = pod({ spec: { nodeName: 'a' } });
const leaving = pod({ metadata: ending, spec: { nodeName: 'a' } });
const fresh = pod({ metadata: { uid: 'p2' } });
const refusedOnce = { conditions: [{ type: 'PodScheduled', status: 'False', reason: 'Unschedulable' }] };
const waiting = pod({ metadata: { uid: 'p2' }, status: refusedOnce });
const nominated = pod({ metadata: { uid: 'p2' }, status: { ...refusedOnce, nominatedNodeName: 'a' } });
const cordoned = node('a', { unschedulable: true });
const away: Observed = {
  claim: claim('true'),
  node: node('a'),
  isMoving: false,
  isLeftToOther: false,
  pods: [],
  placeholders: [placeholder('a')],
  scheduler: 'leader',
};

test('the room of a pod is kept from its end until the node takes it again', () => {
  const rows: readonly [title: string, change: Partial<Observed>, expected: string][] = [
    ['the pod runs', { pods: [running], placeholders: [] }, 'nothing'],
    ['the pod ends', { pods: [leaving], placeholders: [] }, 'create for p on a'],
    [
      'the leader died after it had created the placeholder',
      { placeholders: [placeholder()] },
      'nominate-placeholder on a',
    ],
    ['the pod is gone', {}, 'nothing'],
    ['another scheduler leads', { scheduler: 'other' }, 'nominate-placeholder on a'],
    ['which scheduler leads is not known', { scheduler: undefined }, 'nothing'],
    [
      'a pod of higher priority took the nomination away',
      { placeholders: [placeholder()] },
      'nominate-placeholder on a',
    ],
    ['the next pod has not been tried', { pods: [fresh] }, 'nothing'],
    ['the next pod was tried, and its placeholder kept it out', { pods: [waiting] }, 'nominate-pod p2 on a'],
    ['the next pod is counted itself', { pods: [nominated] }, 'delete placeholder-of-c'],
    ['the next pod does not fit, without a placeholder', { pods: [waiting], placeholders: [] }, 'nothing'],
    ['the next pod is there before the last one is gone', { pods: [leaving, waiting] }, 'nothing'],
    ['the node is cordoned', { pods: [waiting], node: cordoned }, 'nothing'],
    [
      'the claim was annotated while the pod waits',
      { pods: [waiting], node: cordoned, placeholders: [] },
      'create for p2 on a',
    ],
    ['the pod runs again', { pods: [running] }, 'delete placeholder-of-c'],
    ['nobody knows what the pod needs', { placeholders: [] }, 'nothing'],
  ];
  for (const [title, change, expected] of rows) assert.equal(inWords({ ...away, ...change }), expected, title);
});

test('a placeholder goes when nothing will return to its node', () => {
  const rows: readonly [title: string, change: Partial<Observed>, expected: string][] = [
    ['the claim is gone', { claim: undefined, node: undefined }, 'delete placeholder-of-c'],
    ['the claim is being deleted', { claim: claim('true', ending) }, 'delete placeholder-of-c'],
    [
      'the claim was created again',
      { placeholders: [placeholder('a', { uid: 'earlier' })] },
      'delete placeholder-of-earlier',
    ],
    ['the annotation is gone', { claim: claim() }, 'delete placeholder-of-c'],
    ['the annotation says false', { claim: claim('false') }, 'delete placeholder-of-c'],
    ['the volume is on another node', { node: node('b') }, 'delete placeholder-of-c'],
    ['the volume is about to move', { isMoving: true }, 'delete placeholder-of-c'],
    ['the Node is gone', { node: undefined }, 'delete placeholder-of-c'],
    ['another claim of the pod reserves', { isLeftToOther: true }, 'delete placeholder-of-c'],
    ['another claim reserves, and the pod ends', { isLeftToOther: true, pods: [leaving], placeholders: [] }, 'nothing'],
    ['the volume moves, and the pod ends', { isMoving: true, pods: [leaving], placeholders: [] }, 'nothing'],
    ['the annotation became invalid', { claim: claim('yes') }, 'delete placeholder-of-c'],
    ['the annotation is invalid', { claim: claim('yes'), placeholders: [] }, 'nothing'],
  ];
  for (const [title, change, expected] of rows) assert.equal(inWords({ ...away, ...change }), expected, title);
});

test('a placeholder requests what the pod takes of a node, with its priority, and can never run', () => {
  const resources = { requests: { cpu: '500m', memory: '1Gi' }, limits: { 'example.com/gpu': '1' } };
  const other = pod({
    spec: {
      containers: [
        { name: 'main', resources },
        { name: 'side', resources: { requests: { cpu: '1' } } },
      ],
      initContainers: [{ name: 'once', resources: { requests: { memory: '3Gi' } } }],
      priorityClassName: 'high',
      schedulerName: 'default-scheduler',
    },
  });
  const requests = { cpu: '1500m', memory: `${3 * 1024 ** 3}`, 'example.com/gpu': '1' };
  assert.deepEqual(toPlaceholder(other, claim('true'), { namespace: 'moorage-system', ownerUid: 'd' }), {
    metadata: {
      name: 'reserve-c',
      namespace: 'moorage-system',
      labels: { 'moorage.dev/reserve': 'true' },
      annotations: { 'moorage.dev/claim': 'shop/data-db-0' },
      ownerReferences: [{ apiVersion: 'storage.k8s.io/v1', kind: 'CSIDriver', name: driverName, uid: 'd' }],
    },
    spec: {
      schedulingGates: [{ name: 'moorage.dev/reserve' }],
      priorityClassName: 'high',
      schedulerName: 'default-scheduler',
      automountServiceAccountToken: false,
      containers: [{ name: 'never-runs', image: 'never-runs', resources: { requests, limits: requests } }],
    },
  });
});

function inWords(seen: Observed): string {
  const step = nextStep(seen);
  switch (step.kind) {
    case 'nothing':
      return step.kind;
    case 'create':
      return `create for ${step.pod.metadata.uid} on ${step.nodeName}`;
    case 'nominate-placeholder':
      return `${step.kind} on ${step.nodeName}`;
    case 'nominate-pod':
      return `${step.kind} ${step.pod.metadata.uid} on ${step.nodeName}`;
    case 'delete':
      return `delete ${step.placeholder.metadata.uid}`;
  }
}
