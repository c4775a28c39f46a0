import { localPvFinalizer } from '../../api/local-pv.ts';
import { nodeOfTest, podOfTest } from '../../moves/testing/nodes-and-pods.ts';
import type { PinnedClaim } from './observed.ts';
import { claimOfTest, logicalVolumeOfTest, moveOfTest, volumeOfTest } from './testing/move-of-test.ts';
import { type Row, stepTests } from './testing/step-tests.ts';

const gone = { metadata: { deletionTimestamp: 'now' } };
const bare = podOfTest('shell', { metadata: { ownerReferences: [] } });
const wal: PinnedClaim = { claim: 'prod/wal-db-0', pod: 'db-0', nodeNames: ['a'], sizeBytes: 1n, deviceClass: 'ssd' };
const aborted = { metadata: { annotations: { 'moorage.dev/abort': 'true' } } };
/** Another move, by default of another claim and between the same nodes. */
const other = (
  phase: Parameters<typeof moveOfTest>[0],
  status: Parameters<typeof moveOfTest>[1] = {},
  claimName = 'other',
  creationTimestamp = '2025-01-01T00:00:00Z',
) => moveOfTest(phase, status, { metadata: { name: 'other', uid: 'o', creationTimestamp }, spec: { claimName } });

/** A move that a drain has created. */
const drained = (node: string) =>
  moveOfTest(
    undefined,
    {},
    { metadata: { annotations: { 'moorage.dev/drained-from': node } }, spec: { patient: true } },
  );
const cordoned = { sourceNode: nodeOfTest('a', { spec: { unschedulable: true } }) };

const patiently: readonly Row[] = [
  ['its node is drained', drained('a'), cordoned, /^plan a to b/],
  ['its node is no longer drained', drained('a'), {}, 'refuse DrainEnded'],
  ['its volume has left the drained node', drained('z'), cordoned, 'refuse DrainEnded'],
  [
    'no other node has room',
    drained('a'),
    { ...cordoned, nodes: [nodeOfTest('a')] },
    /^wait cannot begin yet: there is no/,
  ],
  [
    'the other volume of its pod has no move yet',
    drained('a'),
    { ...cordoned, pinned: [wal] },
    /^wait .*prod\/wal-db-0/,
  ],
  ['there is no claim', drained('a'), { ...cordoned, claim: undefined }, 'refuse NoClaim'],
  [
    'another move has the claim',
    drained('a'),
    { ...cordoned, others: [other('Copying', {}, 'data-db-0')] },
    'refuse MovedAlready',
  ],
];

const begin: readonly Row[] = [
  ['it has no finalizer yet', moveOfTest(undefined, {}, { metadata: { finalizers: [] } }), {}, 'protect'],
  [
    'it was deleted at once',
    moveOfTest(undefined, {}, { metadata: { finalizers: [], ...gone.metadata } }),
    {},
    'nothing',
  ],
  ['nothing speaks against it', moveOfTest(undefined), {}, 'plan a to b as pvc-1-aaaabbbb'],
  ['a target is given', moveOfTest(undefined, {}, { spec: { targetNode: 'c' } }), {}, /^plan a to c/],
  ['the given target is the source', moveOfTest(undefined, {}, { spec: { targetNode: 'a' } }), {}, 'refuse NoTarget'],
  ['the given target is no node', moveOfTest(undefined, {}, { spec: { targetNode: 'z' } }), {}, 'refuse NoTarget'],
  ['no other node has room', moveOfTest(undefined), { nodes: [nodeOfTest('a')] }, 'refuse NoTarget'],
  ['it was aborted', moveOfTest(undefined, {}, aborted), {}, 'abort Requested'],
  ['there is no claim', moveOfTest(undefined), { claim: undefined }, 'refuse NoClaim'],
  ['the claim is being deleted', moveOfTest(undefined), { claim: claimOfTest(gone) }, 'refuse NoClaim'],
  [
    'the claim is not bound',
    moveOfTest(undefined),
    { claim: claimOfTest({ status: { phase: 'Pending' } }) },
    'refuse NotBound',
  ],
  ['the claim has no volume', moveOfTest(undefined), { volume: undefined }, 'refuse NotBound'],
  [
    'the claim names the PersistentVolume of another claim',
    moveOfTest(undefined),
    { volume: volumeOfTest({ spec: { claimRef: { namespace: 'victim', name: 'data', uid: 'uid-of-the-victim' } } }) },
    'refuse NotBound',
  ],
  [
    'the volume is of another driver',
    moveOfTest(undefined),
    { volume: volumeOfTest({ spec: { csi: { driver: 'other', volumeHandle: 'x' } } }) },
    'refuse NotOurs',
  ],
  [
    'the volume is static',
    moveOfTest(undefined),
    { volume: volumeOfTest({ metadata: { finalizers: [localPvFinalizer] }, spec: { csi: undefined } }) },
    'refuse StaticVolume',
  ],
  ['no LogicalVolume has the volume', moveOfTest(undefined), { source: undefined }, 'refuse SourceLost'],
  [
    'the volume is on another node',
    moveOfTest(undefined),
    { source: logicalVolumeOfTest('pvc-1', 'c') },
    'refuse SourceLost',
  ],
  ['the source node is gone', moveOfTest(undefined), { sourceNode: undefined }, 'refuse SourceNodeGone'],
  [
    'the claim is being resized',
    moveOfTest(undefined),
    { claim: claimOfTest({ spec: { resources: { requests: { storage: '2Gi' } } } }) },
    'refuse ResizeInProgress',
  ],
  [
    'the volume is growing',
    moveOfTest(undefined),
    { source: logicalVolumeOfTest('pvc-1', 'a', { spec: { size: '2Gi' } }) },
    'refuse ResizeInProgress',
  ],
  ['a pod has no owner', moveOfTest(undefined), { pods: [bare] }, 'refuse BarePod'],
  [
    'a pod without owner may be stopped',
    moveOfTest(undefined, {}, { spec: { stopBarePods: true } }),
    { pods: [bare] },
    /^plan/,
  ],
  ['no pod uses it', moveOfTest(undefined), { pods: [] }, /^plan a to b/],
  [
    'an earlier move has the claim',
    moveOfTest(undefined),
    { others: [other('Copying', {}, 'data-db-0')] },
    'refuse MovedAlready',
  ],
  [
    'a later move has the claim',
    moveOfTest(undefined),
    { others: [moveOfTest(undefined, {}, { metadata: { name: 'z', uid: 'z' } })] },
    /^plan/,
  ],
  [
    'its node has a move',
    moveOfTest(undefined),
    { others: [other('Copying', { targetNode: 'c' })] },
    /^wait .*prod\/other/,
  ],
  ['a move of its node only cleans up', moveOfTest(undefined), { others: [other('Cleaning')] }, /^plan/],
  ['the move of its node has no turn yet', moveOfTest(undefined), { others: [other(undefined)] }, /^plan/],
  [
    'the first target has a move',
    moveOfTest(undefined),
    { others: [other('Copying', { sourceNode: 'z' })] },
    'plan a to c as pvc-1-aaaabbbb',
  ],
  [
    'the given target has a move',
    moveOfTest(undefined, {}, { spec: { targetNode: 'b' } }),
    { others: [other('Copying', { sourceNode: 'z' })] },
    /^wait .*node b/,
  ],
  ['its pod has another volume there', moveOfTest(undefined), { pinned: [wal] }, 'refuse PodHasOtherVolumes'],
  [
    'its pod has another volume there, whose move may be created now',
    moveOfTest(undefined),
    { pinned: [wal], ageMs: 500 },
    /^wait cannot begin yet: pod db-0 also uses claim prod\/wal-db-0/,
  ],
  [
    'the other volume of its pod moves to c',
    moveOfTest(undefined),
    { pinned: [wal], others: [other('Copying', { targetNode: 'c' }, 'wal-db-0')] },
    /^plan a to c/,
  ],
  [
    'the other volume of its pod will move',
    moveOfTest(undefined),
    { pinned: [wal], others: [other(undefined, {}, 'wal-db-0')] },
    /^plan a to b/,
  ],
];

stepTests(begin);
stepTests(patiently);
