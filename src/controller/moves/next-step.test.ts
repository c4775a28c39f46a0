import { claimKey } from '../../api/names.ts';
import { nodeOfTest, podOfTest } from '../../moves/testing/nodes-and-pods.ts';
import type { PinnedClaim } from './observed.ts';
import {
  claimOfTest,
  logicalVolumeOfTest,
  moveOfTest,
  sourceVolume,
  targetVolume,
  volumeOfTest,
} from './testing/move-of-test.ts';
import { type Row, stepTests } from './testing/step-tests.ts';

const gone = { metadata: { deletionTimestamp: 'now' } };
const finalizer = { finalizers: ['kubernetes.io/pv-protection'] };
const lostTarget = targetVolume({ status: { volumeID: 'uid-pvc-1-aaaabbbb', missingFrom: 'uid-b' } });
const moved = volumeOfTest({ handle: 'uid-pvc-1-aaaabbbb', node: 'b' });
/** That of a move which began before sources were marked. */
const unmarked = logicalVolumeOfTest('pvc-1', 'a');
/** Not marked either. */
const ofItsClaim = logicalVolumeOfTest('pvc-1', 'a', { metadata: { annotations: { [claimKey]: 'prod/data-db-0' } } });
const otherTarget = targetVolume({ metadata: { annotations: { 'moorage.dev/move': 'another' } } });
/** Somebody else's PersistentVolume, which the claim only names. */
const foreign = volumeOfTest({
  spec: { claimRef: { namespace: 'victim', name: 'data-db-0', uid: 'uid-of-the-victim' } },
});
const touched = claimOfTest({ metadata: { annotations: { 'moorage.dev/moved-to': 'b' } } });
const switched = [
  { type: 'Switched', status: 'True', reason: 'Committed', message: '', lastTransitionTime: 'now' },
] as const;
const retained = { persistentVolumeReclaimPolicy: 'Retain' };
const stuck = podOfTest('db-0', { metadata: { uid: 'second' }, status: { phase: 'Pending' } });
const bare = podOfTest('shell', { metadata: { ownerReferences: [] } });
const wal: PinnedClaim = { claim: 'prod/wal-db-0', pod: 'db-0', nodeNames: ['a'], sizeBytes: 1n, deviceClass: 'ssd' };
const aborted = { metadata: { annotations: { 'moorage.dev/abort': 'true' } } };
/** The manifest of a move, with something else in it. */
const saved = (change: { metadata?: object; spec?: object }) => JSON.stringify(volumeOfTest(change));
/** Another move, by default of another claim and between the same nodes. */
const other = (
  phase: Parameters<typeof moveOfTest>[0],
  status: Parameters<typeof moveOfTest>[1] = {},
  claimName = 'other',
  creationTimestamp = '2025-01-01T00:00:00Z',
) => moveOfTest(phase, status, { metadata: { name: 'other', uid: 'o', creationTimestamp }, spec: { claimName } });

const pending: readonly Row[] = [
  ['it is planned', moveOfTest('Pending'), { target: undefined }, 'create-target'],
  ['the node has not answered', moveOfTest('Pending'), { target: targetVolume({ status: {} }) }, /^wait .*node b/],
  [
    'the target is full',
    moveOfTest('Pending'),
    { target: targetVolume({ status: { code: 8, message: 'full' } }) },
    'abort TargetRefused',
  ],
  ['the volume is there', moveOfTest('Pending'), {}, 'enter Copying'],
  ['it was aborted', moveOfTest('Pending', {}, aborted), { target: undefined }, 'abort Requested'],
];

/** Whatever happens before the verdict, the way back is the same. */
const beforeVerdict = (['Pending', 'Copying', 'Stopping', 'Freezing'] as const).flatMap((phase): readonly Row[] => [
  ['it was aborted', moveOfTest(phase, {}, aborted), {}, 'abort Requested'],
  ['it was deleted', moveOfTest(phase, {}, gone), {}, 'abort Requested'],
  ['the claim was deleted', moveOfTest(phase), { claim: undefined }, 'abort ClaimDeleted'],
  ['the claim is being deleted', moveOfTest(phase), { claim: claimOfTest(gone) }, 'abort ClaimDeleted'],
  [
    'another claim has the name',
    moveOfTest(phase),
    { claim: claimOfTest({ metadata: { uid: 'x' } }) },
    'abort ClaimDeleted',
  ],
  ['the PersistentVolume is gone', moveOfTest(phase), { volume: undefined }, 'abort VolumeReplaced'],
  ['the PersistentVolume has another volume', moveOfTest(phase), { volume: moved }, 'abort VolumeReplaced'],
  [
    'the PersistentVolume is bound to another claim',
    moveOfTest(phase),
    { volume: foreign, source: unmarked },
    'abort VolumeReplaced',
  ],
  ['the source is not marked', moveOfTest(phase), { source: unmarked }, 'mark-source'],
  ['the target is another volume', moveOfTest(phase), { target: otherTarget }, 'abort TargetLost'],
  ['the source node is gone', moveOfTest(phase), { sourceNode: undefined }, 'abort SourceNodeGone'],
  ['the source is gone', moveOfTest(phase), { source: undefined }, 'abort SourceLost'],
  ['the target node is gone', moveOfTest(phase), { targetNode: undefined }, 'abort TargetNodeGone'],
  [
    'the target node is being deleted',
    moveOfTest(phase),
    { targetNode: nodeOfTest('b', gone) },
    'abort TargetNodeGone',
  ],
  ['the target lost its disks', moveOfTest(phase), { target: lostTarget }, 'abort TargetLost'],
  [
    'the volume is being resized',
    moveOfTest(phase),
    { source: sourceVolume({ spec: { size: '2Gi' } }) },
    'abort ResizeInProgress',
  ],
  ['the source has snapshots', moveOfTest(phase), { snapshots: ['snap-1'] }, /^(enter|wait)/],
]);

const copying: readonly Row[] = [
  ['the copy goes on', moveOfTest('Copying'), {}, /^wait copies/],
  ['an agent has a problem', moveOfTest('Copying', { target: { message: 'no route' } }), {}, /^wait .*no route/],
  ['the target volume is gone', moveOfTest('Copying'), { target: undefined }, 'abort TargetLost'],
  ['the rest is small', moveOfTest('Copying', { target: { converged: true } }), {}, 'enter Stopping'],
  ['a bare pod has come', moveOfTest('Copying'), { pods: [bare] }, 'abort BarePod'],
  ['its pod got another volume', moveOfTest('Copying'), { pinned: [wal] }, 'abort PodHasOtherVolumes'],
  [
    'the other volume of its pod is slower',
    moveOfTest('Copying', { target: { converged: true } }),
    { pinned: [wal], others: [other('Copying', {}, 'wal-db-0')] },
    /^wait .*VolumeMove other/,
  ],
  [
    'both volumes of its pod are ready',
    moveOfTest('Copying', { target: { converged: true } }),
    { pinned: [wal], others: [other('Copying', { target: { converged: true } }, 'wal-db-0')] },
    'enter Stopping',
  ],
  [
    'the other volume of its pod goes elsewhere',
    moveOfTest('Copying'),
    { pinned: [wal], others: [other('Copying', { targetNode: 'c' }, 'wal-db-0')] },
    'abort PodHasOtherVolumes',
  ],
];

const fenced = { source: { fenced: true } };
const recorded = { ...fenced, pods: [{ name: 'db-0', uid: 'uid-db-0' }] };
const stopping: readonly Row[] = [
  ['the source is not fenced', moveOfTest('Stopping'), {}, /^wait .*node a/],
  ['the source is fenced', moveOfTest('Stopping', fenced), {}, 'record-pods db-0'],
  [
    'a pod is not scheduled',
    moveOfTest('Stopping', fenced),
    { pods: [podOfTest('x', { spec: { nodeName: '' } })] },
    'record-pods',
  ],
  ['a bare pod has come before the fence', moveOfTest('Stopping', fenced), { pods: [bare] }, 'abort BarePod'],
  ['the pods run', moveOfTest('Stopping', recorded), {}, 'evict-pods db-0'],
  [
    'the pods stop',
    moveOfTest('Stopping', recorded),
    { pods: [podOfTest('db-0', gone)] },
    /^wait waits until pod db-0 has stopped$/,
  ],
  ['the pods are gone', moveOfTest('Stopping', recorded), { pods: [] }, 'enter Freezing'],
  [
    'its owner has created the pod again, which waits at the fence',
    moveOfTest('Stopping', recorded),
    { pods: [stuck] },
    'enter Freezing',
  ],
  ['no pod used it', moveOfTest('Stopping', { ...fenced, pods: [] }), { pods: [] }, 'enter Freezing'],
];

const verdict = { round: 3, bytes: 100, sha256: 'abc' };
const freezing: readonly Row[] = [
  ['it is still open', moveOfTest('Freezing', fenced), {}, /^wait .*node a/],
  ['it is read-only', moveOfTest('Freezing', { source: { readOnly: true } }), {}, /^wait copies the last/],
  [
    'the target has all data',
    moveOfTest('Freezing', { source: { readOnly: true }, target: { verdict } }),
    {},
    'commit',
  ],
  [
    'it is still open, and a pod waits for it there',
    moveOfTest('Freezing', { source: { fenced: true, message: 'it is still open' } }),
    { pods: [stuck] },
    'delete-pods db-0',
  ],
  [
    'a pod waits for it there, and the agent has not tried yet',
    moveOfTest('Freezing', fenced),
    { pods: [stuck] },
    /^wait/,
  ],
  ['a verdict without a read-only source', moveOfTest('Freezing', { target: { verdict } }), {}, /^wait/],
  ['a bare pod waits at the fence', moveOfTest('Freezing', fenced), { pods: [bare] }, /^wait/],
];

const partner = (...[phase, status, change]: Parameters<typeof moveOfTest>) => [
  { name: 'other', move: moveOfTest(phase, status, change) },
];
const ready = { source: { readOnly: true }, target: { verdict } };
/** The moves of one pod, once it is about to be stopped. */
const together: readonly Row[] = [
  ...(['Copying', 'Stopping', 'Freezing'] as const).flatMap((phase): readonly Row[] => [
    ['its partner is Aborting', moveOfTest(phase), { partners: partner('Aborting') }, 'abort AbortedTogether'],
    ['its partner is Aborted', moveOfTest(phase), { partners: partner('Aborted') }, 'abort AbortedTogether'],
    [
      'its partner was deleted',
      moveOfTest(phase),
      { partners: [{ name: 'other', move: undefined }] },
      'abort AbortedTogether',
    ],
    [
      'its partner is to be aborted',
      moveOfTest(phase),
      { partners: partner('Freezing', {}, aborted) },
      'abort AbortedTogether',
    ],
    ['its partner goes on', moveOfTest(phase), { partners: partner('Freezing') }, /^(wait|enter)/],
  ]),
  [
    'the other volume of its pod is not copied any more',
    moveOfTest('Copying', { target: { converged: true } }),
    { pinned: [wal], others: [other('Aborting', { target: { converged: true } }, 'wal-db-0')] },
    'abort AbortedTogether',
  ],
  [
    'its partner has not all data',
    moveOfTest('Freezing', ready),
    { partners: partner('Stopping') },
    /^wait .*VolumeMove other/,
  ],
  ['its partner has all data, too', moveOfTest('Freezing', ready), { partners: partner('Freezing', ready) }, 'commit'],
  ['its partner is committed', moveOfTest('Freezing', ready), { partners: partner('Committed') }, 'commit'],
  ['its partner is Done', moveOfTest('Freezing', ready), { partners: partner('Done') }, 'commit'],
  [
    'it was aborted after its partner was committed',
    moveOfTest('Freezing', ready, aborted),
    { partners: partner('Switching') },
    'commit',
  ],
  [
    'the target node is gone after its partner was committed',
    moveOfTest('Freezing', ready),
    { partners: partner('Committed'), targetNode: undefined },
    'abort TargetNodeGone',
  ],
];

const afterVerdict: readonly Row[] = [
  ['it was committed', moveOfTest('Committed'), {}, 'enter Switching'],
  ['it was aborted too late', moveOfTest('Committed', {}, aborted), {}, 'enter Switching'],
  ['the claim was deleted', moveOfTest('Committed'), { claim: undefined }, 'abort ClaimDeleted'],
  ['the source node is gone', moveOfTest('Committed'), { sourceNode: undefined, source: undefined }, 'enter Switching'],
  ['the target node is gone', moveOfTest('Committed'), { targetNode: undefined }, 'abort TargetNodeGone'],

  ['nothing is switched', moveOfTest('Switching'), {}, 'retain-volume'],
  [
    'the PersistentVolume is retained',
    moveOfTest('Switching'),
    { volume: volumeOfTest({ spec: retained }) },
    'delete-volume',
  ],
  [
    'the PersistentVolume is Terminating',
    moveOfTest('Switching'),
    { volume: volumeOfTest({ spec: retained, metadata: { ...finalizer, ...gone.metadata } }) },
    'strip-volume',
  ],
  [
    'the PersistentVolume is gone',
    moveOfTest('Switching'),
    { volume: undefined },
    'create-volume uid-pvc-1-aaaabbbb on b, Delete',
  ],
  [
    'the new PersistentVolume is not bound',
    moveOfTest('Switching'),
    { volume: volumeOfTest({ handle: 'uid-pvc-1-aaaabbbb', node: 'b', status: { phase: 'Available' } }) },
    /^wait .*bound/,
  ],
  [
    'the claim is Lost',
    moveOfTest('Switching'),
    { volume: moved, claim: claimOfTest({ status: { phase: 'Lost' } }) },
    'touch-claim b',
  ],
  ['the claim was touched', moveOfTest('Switching'), { volume: moved, claim: touched }, 'enter Opening'],
  [
    'the owner retains the new one',
    moveOfTest('Switching'),
    { volume: { ...moved, spec: { ...moved.spec, ...retained } }, claim: touched },
    'enter Opening',
  ],
  [
    'the claim was deleted before the switch',
    moveOfTest('Switching'),
    { claim: undefined, volume: undefined },
    /^create-volume/,
  ],
  [
    'the claim was deleted after the switch',
    moveOfTest('Switching'),
    { claim: undefined, volume: moved },
    'enter Opening',
  ],
  ['the source is not marked', moveOfTest('Switching'), { source: unmarked }, 'mark-source'],
  [
    'the source is not marked, and the PersistentVolume is gone',
    moveOfTest('Switching'),
    { source: ofItsClaim, volume: undefined },
    'mark-source',
  ],
  [
    'only the status says that the source, which is not marked, is that of the claim',
    moveOfTest('Switching'),
    { source: unmarked, volume: undefined },
    'create-volume uid-pvc-1-aaaabbbb on b, Delete',
  ],
  ['it is bound to another claim', moveOfTest('Switching'), { volume: foreign }, /^wait .*another volume/],
  [
    'somebody has created another',
    moveOfTest('Switching'),
    { volume: volumeOfTest({ handle: 'x' }) },
    /^wait .*another volume/,
  ],
  [
    'the source node is gone',
    moveOfTest('Switching'),
    { source: undefined, sourceNode: undefined, volume: undefined },
    /^create-volume/,
  ],
  ['the target node is gone', moveOfTest('Switching'), { targetNode: undefined }, 'abort TargetNodeGone'],

  ['the target is closed', moveOfTest('Opening'), { volume: moved }, /^wait .*node b/],
  ['the target is open', moveOfTest('Opening', { target: { opened: true } }), { volume: moved }, 'enter Cleaning'],
  [
    'the target was lost before it was opened',
    moveOfTest('Opening'),
    { volume: moved, target: lostTarget },
    'abort TargetLost',
  ],
  [
    'the target was lost after it was opened',
    moveOfTest('Opening', { target: { opened: true } }),
    { volume: moved, targetNode: undefined },
    'enter Cleaning',
  ],
  [
    'claim and volume were deleted',
    moveOfTest('Opening'),
    { claim: undefined, volume: undefined, target: undefined },
    'enter Cleaning',
  ],
];

/** What the move must not create or replace, although its status says so. */
const manifests: readonly Row[] = Object.entries({
  'no manifest': undefined,
  'no JSON': '{',
  'another name': saved({ metadata: { name: 'evil' } }),
  'another claim': JSON.stringify(foreign),
  'a directory of the node': saved({ spec: { csi: undefined, hostPath: { path: '/' } } }),
  'another driver': saved({ spec: { csi: { driver: 'evil', volumeHandle: 'uid-pvc-1' } } }),
}).flatMap(([what, manifest]): readonly Row[] => {
  const status = { conditions: switched, ...(manifest !== undefined && { manifest }) };
  const refused = /^wait .*status.manifest is not the PersistentVolume of its claim/;
  return (['Switching', 'Aborting'] as const).flatMap((phase): readonly Row[] => {
    const move = moveOfTest(phase, status);
    const { manifest: _, ...without } = move.status ?? {};
    const hostile = manifest === undefined ? { ...move, status: without } : move;
    return [
      [`${what}, and there is no PersistentVolume`, hostile, { volume: undefined }, refused],
      [what, hostile, {}, refused],
    ];
  });
});

const released = { source: { released: true } };
const plain = targetVolume({ metadata: { annotations: {} } });
const cleaning: readonly Row[] = [
  ['a pod waits on the source node', moveOfTest('Cleaning'), { volume: moved, pods: [stuck] }, 'delete-pods db-0'],
  [
    'a bare pod waits on the source node',
    moveOfTest('Cleaning', released),
    { volume: moved, target: plain, pods: [bare] },
    'delete-source',
  ],
  [
    'the pod runs on the target node',
    moveOfTest('Cleaning'),
    { volume: moved, pods: [podOfTest('db-0', { spec: { nodeName: 'b' } })] },
    'unmark-target',
  ],
  [
    'the source agent still serves',
    moveOfTest('Cleaning'),
    { volume: moved, target: plain, pods: [] },
    /^wait .*agent of node a/,
  ],
  [
    'the new volume is named',
    moveOfTest('Cleaning', released),
    { volume: moved, target: plain, pods: [] },
    'delete-source',
  ],
  [
    'the source is not marked',
    moveOfTest('Cleaning', released),
    { volume: moved, target: plain, pods: [], source: ofItsClaim },
    'mark-source',
  ],
  [
    'only the status says that the source, which is not marked, is that of the claim',
    moveOfTest('Cleaning', released),
    { volume: moved, target: plain, pods: [], source: unmarked },
    /^wait keeps/,
  ],
  [
    'the source is another volume',
    moveOfTest('Cleaning', { ...released, sourceVolume: 'pvc-2' }),
    { volume: moved, target: plain, pods: [], source: logicalVolumeOfTest('pvc-2', 'a') },
    /^wait keeps/,
  ],
  ['the old volume is named', moveOfTest('Cleaning', released), { target: plain, pods: [] }, /^wait keeps/],
  [
    'there is no PersistentVolume',
    moveOfTest('Cleaning', released),
    { volume: undefined, target: plain, pods: [] },
    /^wait keeps/,
  ],
  [
    'the claim was deleted, and with it the new volume',
    moveOfTest('Cleaning', released),
    { claim: undefined, volume: undefined, target: undefined, pods: [] },
    'delete-source',
  ],
  [
    'there are snapshots',
    moveOfTest('Cleaning', released),
    { volume: moved, target: plain, pods: [], snapshots: ['s'] },
    'finish, source kept for s',
  ],
  [
    'the source is being removed',
    moveOfTest('Cleaning', released),
    { volume: moved, target: plain, pods: [], source: sourceVolume(gone) },
    /^wait .*removed/,
  ],
  [
    'the source is removed',
    moveOfTest('Cleaning', released),
    { volume: moved, target: plain, pods: [], source: undefined },
    'finish',
  ],
  [
    'the source node is gone',
    moveOfTest('Cleaning'),
    { volume: moved, target: plain, pods: [], sourceNode: undefined },
    'finish',
  ],
  [
    'it was deleted',
    moveOfTest('Cleaning', released, gone),
    { volume: moved, target: plain, pods: [] },
    'delete-source',
  ],
];

const started = { startedAt: '2026-01-01T00:00:00Z' };
const returning = {
  ...started,
  conditions: switched,
  manifest: moveOfTest('Committed').status?.manifest ?? '',
  verdict,
};
const returned = claimOfTest({ metadata: { annotations: { 'moorage.dev/moved-to': 'a' } } });
const ended: readonly Row[] = [
  ['the copy exists', moveOfTest('Aborting', started), {}, 'delete-target'],
  [
    'the target is another volume',
    moveOfTest('Aborting', { ...started, ...released }),
    { target: otherTarget },
    'enter Aborted',
  ],
  [
    'the copy is being removed',
    moveOfTest('Aborting', { ...started, ...released }),
    { target: targetVolume(gone) },
    /^wait .*node b/,
  ],
  ['the source is not released', moveOfTest('Aborting', started), { target: undefined }, /^wait .*node a/],
  [
    'the device class of the source is not configured any more',
    moveOfTest('Aborting', { ...started, source: { message: 'volume x is not on the disks of this node' } }),
    { target: undefined },
    /^wait .*not on the disks of this node/,
  ],
  ['the source is not marked', moveOfTest('Aborting', started), { target: undefined, source: unmarked }, 'mark-source'],
  [
    'the source is the volume of another claim',
    moveOfTest('Aborting', started),
    { target: undefined, volume: foreign, source: unmarked },
    'enter Aborted',
  ],
  ['the source is removed', moveOfTest('Aborting', started), { target: undefined, source: undefined }, 'enter Aborted'],
  ['it never began', moveOfTest('Aborting'), { target: undefined }, 'enter Aborted'],
  ['all is as it was', moveOfTest('Aborting', { ...started, ...released }), { target: undefined }, 'enter Aborted'],
  [
    'the source node is gone',
    moveOfTest('Aborting', started),
    { target: undefined, sourceNode: undefined },
    'enter Aborted',
  ],
  [
    'the target node is gone',
    moveOfTest('Aborting', { ...started, ...released }),
    { target: targetVolume(gone), targetNode: undefined },
    'enter Aborted',
  ],
  ['the PersistentVolume was switched', moveOfTest('Aborting', returning), { volume: moved }, 'retain-volume'],
  [
    'the PersistentVolume is gone',
    moveOfTest('Aborting', returning),
    { volume: undefined },
    'create-volume uid-pvc-1 on a, Delete',
  ],
  [
    'the PersistentVolume was only retained',
    moveOfTest('Aborting', returning),
    { volume: volumeOfTest({ spec: retained }) },
    'delete-volume',
  ],
  ['the PersistentVolume is back', moveOfTest('Aborting', returning), {}, 'touch-claim a'],
  ['the claim is back', moveOfTest('Aborting', returning), { claim: returned }, 'record-return'],
  [
    'claim and volume were deleted',
    moveOfTest('Aborting', returning),
    { claim: undefined, volume: undefined, source: undefined },
    'record-return',
  ],
  ...(['Done', 'Aborted', 'Failed'] as const).flatMap((phase): readonly Row[] => [
    ['it is over', moveOfTest(phase), {}, 'unmark-source'],
    ['its source is not marked any more', moveOfTest(phase), { source: unmarked }, 'release'],
    ['its source is removed', moveOfTest(phase), { source: undefined }, 'release'],
    ['it is released', moveOfTest(phase, {}, { metadata: { finalizers: [] } }), {}, 'nothing'],
  ]),
];

stepTests([
  ...pending,
  ...beforeVerdict,
  ...copying,
  ...stopping,
  ...freezing,
  ...together,
  ...afterVerdict,
  ...manifests,
  ...cleaning,
  ...ended,
]);
