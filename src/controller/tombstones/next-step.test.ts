import assert from 'node:assert/strict';
import { test } from 'node:test';
import { localPvAnnotations, localPvFinalizer } from '../../api/local-pv.ts';
import type { StoredLogicalVolume } from '../../api/logical-volume.ts';
import {
  driverName,
  leave,
  logicalVolume,
  onDrain,
  pendingDeletionAnnotation,
  tombstone,
  topologyKey,
} from '../../api/names.ts';
import type { MovePhase, StoredVolumeMove } from '../../api/volume-move.ts';
import type { Node, PersistentVolume, PersistentVolumeClaim, Pod, Stored } from '../../kube/resource.ts';
import { nextStep, type Observed, type Step } from './next-step.ts';

const [ours, elastic] = tombstone.annotations;
const common = { uid: 'u', resourceVersion: '1', creationTimestamp: '2026-01-01T00:00:00Z' };
const deleted = { deletionTimestamp: '2026-01-02T00:00:00Z' };

function claim(
  annotations: Record<string, string>,
  { metadata = {}, volumeName = 'pv' }: { metadata?: object; volumeName?: string } = {},
): Stored<PersistentVolumeClaim> {
  return {
    metadata: { ...common, name: 'data-db-0', namespace: 'shop', annotations, ...metadata },
    spec: { volumeName },
  };
}

function csiVolume({ policy = 'Delete', driver = driverName, attributes = {} } = {}): Stored<PersistentVolume> {
  return {
    metadata: { ...common, name: 'pv' },
    spec: {
      persistentVolumeReclaimPolicy: policy,
      csi: { driver, volumeHandle: 'id', volumeAttributes: attributes },
      claimRef: { uid: 'u' },
      nodeAffinity: {
        required: {
          nodeSelectorTerms: [{ matchExpressions: [{ key: topologyKey, operator: 'In', values: ['node-a'] }] }],
        },
      },
    },
  };
}

const staticVolume: Stored<PersistentVolume> = {
  metadata: {
    ...common,
    name: 'pv',
    finalizers: [localPvFinalizer],
    annotations: { [localPvAnnotations.node]: 'node-a' },
  },
  spec: { local: { path: '/mnt/pv/pv' }, claimRef: { uid: 'u' } },
};

function object(metadata: object = {}, status: object = {}): StoredLogicalVolume {
  return {
    metadata: { ...common, name: 'pv', finalizers: [logicalVolume.finalizer], ...metadata },
    spec: { name: 'pv', nodeName: 'node-a', size: '1Gi' },
    status: { volumeID: 'id', ...status },
  };
}

function node(ready: string, metadata: object = {}): Stored<Node> {
  return {
    metadata: { ...common, name: 'node-a', ...metadata },
    status: { conditions: [{ type: 'Ready', status: ready }] },
  };
}

function pod(name: string, { nodeName = 'node-a', metadata = {} }: { nodeName?: string; metadata?: object } = {}) {
  const owner = { apiVersion: 'apps/v1', kind: 'StatefulSet', name: 'db', uid: 's', controller: true };
  const found: Stored<Pod> = {
    metadata: { ...common, name, namespace: 'shop', ownerReferences: [owner], ...metadata },
    spec: { containers: [], ...(nodeName && { nodeName }) },
  };
  return found;
}

function move(phase: MovePhase, metadata: object = {}): StoredVolumeMove {
  return {
    metadata: { ...common, name: 'move', namespace: 'shop', ...metadata },
    spec: { claimName: 'data-db-0' },
    status: { phase, message: 'the reason', targetNode: 'node-b' },
  };
}

const force = { [ours]: 'force' };
const graceful = { [ours]: 'graceful' };
const healthy: Observed = {
  claim: claim(force),
  volume: csiVolume(),
  logicalVolume: object(),
  node: node('True'),
  pods: [pod('db-0')],
  moves: [],
  isRecreated: true,
};

/** A step in one line. */
function text(step: Step): string {
  switch (step.kind) {
    case 'report':
    case 'end':
      return `${step.kind} ${step.event.reason}: ${step.event.message}`;
    case 'give-up':
      return `give-up ${step.volume.metadata.name}`;
    case 'delete-claim':
      return ['delete-claim', ...step.events.map(({ reason, message }) => `${reason}: ${message}`)].join('\n');
    case 'delete-pods':
      return `${step.isForced ? 'force-' : ''}delete-pods ${step.pods.map(({ metadata }) => metadata.name).join(' ')}`;
    case 'ask-operator':
      return `ask-operator on ${step.nodeName}`;
    case 'follow':
      return `follow ${step.move.metadata.name}`;
    case 'nothing':
    case 'withdraw':
    case 'move':
      return step.kind;
  }
}

type Row = readonly [title: string, change: Partial<Observed>, expected: string | RegExp];

function check(base: Observed, rows: readonly Row[]): void {
  for (const [title, change, expected] of rows) {
    const found = text(nextStep({ ...base, ...change }));
    if (typeof expected === 'string') assert.equal(found, expected, title);
    else assert.match(found, expected, title);
  }
}

test('only the two words are orders', () => {
  check(healthy, [
    ['no tombstone', { claim: claim({}) }, 'nothing'],
    [
      'a wrong word',
      { claim: claim({ [ours]: 'true' }) },
      'report InvalidTombstone: moorage.dev/delete is "true"; use graceful or force',
    ],
    [
      'a wrong word of the other name',
      { claim: claim({ [elastic]: '' }) },
      /elastic.co\/delete is ""; use graceful or force/,
    ],
    ['one right and one wrong', { claim: claim({ ...force, [elastic]: 'now' }) }, /^report .*delete is "now"/],
    ['two different words', { claim: claim({ ...force, [elastic]: 'graceful' }) }, /^report .*remove one of them$/],
    ['the same word twice', { claim: claim({ ...force, [elastic]: 'force' }), node: undefined }, 'give-up pv'],
    ['the other name', { claim: claim({ [elastic]: 'force' }), node: undefined }, 'give-up pv'],
  ]);
});

test('an order that cannot be carried out is withdrawn', () => {
  check({ ...healthy, node: undefined }, [
    ['no volume', { claim: claim(force, { volumeName: '' }) }, /^end TombstoneRefused: .*has no volume yet$/],
    ['no volume, graceful', { claim: claim(graceful, { volumeName: '' }) }, /^end TombstoneRefused/],
    [
      'no PersistentVolume',
      { volume: undefined },
      /^end TombstoneRefused: .*no PersistentVolume pv, so there is no data to release$/,
    ],
    [
      'the volume of another claim',
      { claim: claim(force, { metadata: { uid: 'thief' } }) },
      /^end TombstoneRefused: .*pv is not bound to this claim$/,
    ],
    ['it moves', { moves: [move('Copying')] }, /^end TombstoneRefused: .*kubectl moorage abort move$/],
    ['it has moved', { moves: [move('Done')] }, 'give-up pv'],
    [
      'another driver',
      { volume: csiVolume({ driver: 'example.com' }) },
      /^report InvalidTombstone: .*not a volume of Moorage/,
    ],
    [
      'another driver, and not our annotation',
      { volume: csiVolume({ driver: 'example.com' }), claim: claim({ [elastic]: 'force' }) },
      'nothing',
    ],
  ]);
});

test('force: a volume that is healthy and in use needs a confirmation', () => {
  const confirmed = claim({ ...force, [tombstone.confirm]: 'pv' });
  const byDrain = { [tombstone.confirm]: 'pv', 'moorage.dev/drained-from': 'node-a' };
  const removed =
    /^delete-claim\nClaimReleased: deleting this claim: moorage.dev\/delete is force; its volume is removed with its data$/;
  check(healthy, [
    [
      'not confirmed',
      {},
      'end TombstoneRefused: nothing was done, and the order is withdrawn: the volume is healthy, and pod db-0 uses it; ' +
        'to give its data up: kubectl annotate pvc -n shop data-db-0 moorage.dev/delete=force moorage.dev/confirm=pv',
    ],
    ['confirmed for another', { claim: claim({ ...force, [tombstone.confirm]: 'old' }) }, /^end .*confirm is old\)/],
    ['confirmed', { claim: confirmed }, removed],
    ['by a person, after a drain', { claim: claim({ ...force, ...byDrain }) }, removed],
    [
      'by a drain',
      { claim: claim({ ...force, ...byDrain, 'moorage.dev/on-drain': 'drop' }) },
      /deleting this claim: moorage.dev\/on-drain is drop, and node node-a is drained; its volume is removed/,
    ],
    ['no pod', { pods: [] }, removed],
    ['its pod ends', { pods: [pod('db-0', { metadata: deleted })] }, removed],
    ['its pod waits', { pods: [pod('db-0', { nodeName: '' })] }, removed],
    ['retained', { claim: confirmed, volume: csiVolume({ policy: 'Retain' }) }, /PersistentVolume pv is retained$/],
    ['static', { volume: staticVolume, logicalVolume: undefined }, /^end TombstoneRefused/],
    [
      'static, confirmed',
      { claim: confirmed, volume: staticVolume, logicalVolume: undefined },
      /pv stays, and is emptied$/,
    ],
    [
      'confirmed, and the claim is deleted',
      { claim: claim({ ...force, [tombstone.confirm]: 'pv' }, { metadata: deleted }) },
      'delete-pods db-0',
    ],
    ['somebody else has deleted the claim', { claim: claim(force, { metadata: deleted }) }, /^end TombstoneRefused/],
  ]);
});

test('force: a volume that is out of reach is given up, then its claim, then its pods', () => {
  const gone = (reason: string) =>
    `delete-claim\nClaimReleased: deleting this claim: ${reason}, and moorage.dev/delete is force; what is left of its data stays on the disks`;
  const given = { metadata: { ...deleted, annotations: { [pendingDeletionAnnotation]: 'true' }, finalizers: [] } };
  check(healthy, [
    ['NotReady', { node: node('Unknown') }, 'give-up pv'],
    ['then its claim', { node: node('False'), logicalVolume: undefined }, gone('node node-a is not Ready')],
    ['no Node', { node: undefined, logicalVolume: undefined }, gone('node node-a is not in the cluster')],
    ['being removed', { node: node('True', deleted), logicalVolume: undefined }, gone('node node-a is being removed')],
    ['a lost disk', { logicalVolume: object({}, { missingFrom: 'u' }) }, 'give-up pv'],
    ['then its claim, even if the node is back', { logicalVolume: undefined }, gone('node node-a has lost the volume')],
    [
      'a finalizer of somebody else',
      { logicalVolume: object(given.metadata) },
      gone('node node-a has lost the volume'),
    ],
    [
      'retained',
      { node: undefined, volume: csiVolume({ policy: 'Retain' }) },
      'delete-claim\nClaimReleased: deleting this claim: node node-a is not in the cluster, and moorage.dev/delete is force; PersistentVolume pv is retained',
    ],
    [
      'static',
      { node: node('Unknown'), volume: staticVolume, logicalVolume: undefined },
      gone('node node-a is not Ready'),
    ],
  ]);
  check({ ...healthy, claim: claim(force, { metadata: deleted }), logicalVolume: undefined }, [
    ['its node cannot end them', { node: node('Unknown') }, 'force-delete-pods db-0'],
    [
      'even if they are being deleted',
      { node: undefined, pods: [pod('db-0', { metadata: deleted })] },
      'force-delete-pods db-0',
    ],
    ['its node can', {}, 'delete-pods db-0'],
    ['they end', { pods: [pod('db-0', { metadata: deleted })] }, 'nothing'],
    ['a new pod waits', { node: undefined, pods: [pod('db-0', { nodeName: '' })] }, 'nothing'],
  ]);
});

test('force: what nobody creates again is named', () => {
  const pods = [pod('db-0', { metadata: { ownerReferences: [] } })];
  check({ ...healthy, node: undefined, logicalVolume: undefined }, [
    ['a claim', { isRecreated: false }, /\nNotRecreated: nothing creates this claim again: create it yourself$/],
    ['a pod', { pods }, /\nNotRecreated: pod db-0 has no owner: nothing creates it again$/],
  ]);
});

test('graceful: the data moves, and the claim stays', () => {
  const following = claim({ ...graceful, [tombstone.move]: 'move' });
  check({ ...healthy, claim: claim(graceful) }, [
    ['it begins', {}, 'move'],
    ['the order is gone', { claim: claim({ [tombstone.move]: 'move' }), moves: [move('Done')] }, 'withdraw'],
    ['an earlier move is over', { moves: [move('Done'), move('Failed')] }, 'move'],
    ['a move is under way', { moves: [move('Done'), move('Copying', { name: 'second' })] }, 'follow second'],
    ['it goes on', { claim: following, moves: [move('Copying')] }, 'nothing'],
    [
      'the PersistentVolume is being replaced',
      { claim: following, moves: [move('Switching')], volume: undefined },
      'nothing',
    ],
    [
      'done',
      { claim: following, moves: [move('Done')] },
      'end DataMoved: VolumeMove move has moved the data to node node-b',
    ],
    ['refused', { claim: following, moves: [move('Failed')] }, /^end TombstoneRefused: .*VolumeMove move: the reason$/],
    [
      'aborted',
      { claim: following, moves: [move('Aborted')] },
      /^end TombstoneRefused: .*VolumeMove move: the reason$/,
    ],
    ['deleted', { claim: following }, /^end TombstoneRefused: .*VolumeMove move was deleted$/],
    [
      'static',
      { volume: staticVolume, logicalVolume: undefined },
      /^end TombstoneRefused: .*static volumes do not move$/,
    ],
    ['the claim is deleted', { claim: claim(graceful, { metadata: deleted }) }, 'nothing'],
  ]);
});

test('graceful: with the policy delegate, its operator answers first', () => {
  const delegated = { ...graceful, [onDrain.annotation]: 'delegate' };
  const asked = { ...delegated, [leave.request]: 'node-a@now' };
  const left = { ...asked, [leave.acknowledgement]: 'node-a@now' };
  const byClass = csiVolume({ attributes: { [onDrain.annotation]: 'delegate' } });
  check(healthy, [
    ['the order is gone', { claim: claim({ [leave.request]: 'node-a@now' }) }, 'withdraw'],
    ['asked', { claim: claim(delegated) }, 'ask-operator on node-a'],
    ['by its class', { claim: claim(graceful), volume: byClass }, 'ask-operator on node-a'],
    [
      'the claim has precedence',
      { claim: claim({ ...graceful, [onDrain.annotation]: 'wait' }), volume: byClass },
      'move',
    ],
    [
      'an unknown policy',
      { claim: claim({ ...graceful, [onDrain.annotation]: 'archive' }) },
      /^end TombstoneRefused: .*moorage.dev\/on-drain is "archive"; use one of wait, move, delegate, drop$/,
    ],
    ['no answer', { claim: claim(asked) }, /^report DataLeaving: waits until the operator/],
    ['an old answer', { claim: claim({ ...asked, [leave.acknowledgement]: 'node-a@then' }) }, /^report DataLeaving/],
    [
      'left',
      { claim: claim(left) },
      'delete-claim\nClaimReleased: deleting this claim: its operator has moved the data elsewhere; its volume is removed with its data',
    ],
    ['then its pods', { claim: claim(left, { metadata: deleted }) }, 'delete-pods db-0'],
  ]);
});
