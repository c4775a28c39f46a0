import { nodeOfTest } from '../../moves/testing/nodes-and-pods.ts';
import {
  claimOfTest,
  logicalVolumeOfTest,
  moveOfTest,
  sourceVolume,
  targetVolume,
  targetVolumeName,
} from './testing/move-of-test.ts';
import { type Row, stepTests } from './testing/step-tests.ts';

const gone = { metadata: { deletionTimestamp: 'now' } };
const owner = {
  ownerReferences: [{ apiVersion: 'v1', kind: 'PersistentVolumeClaim', name: 'x', uid: 'uid-data-db-0' }],
};

/** A copy from node a to node b into the volume of claim prod/data-db-0. */
const copy = (
  phase: Parameters<typeof moveOfTest>[0],
  status: Parameters<typeof moveOfTest>[1] = {},
  metadata: object = {},
) => moveOfTest(phase, status, { metadata: { ...owner, ...metadata }, spec: { fill: targetVolumeName } });
const unplanned = (metadata: object = {}) => copy(undefined, {}, metadata);
const unplannedAborting = { ...unplanned(), status: { phase: 'Aborting' } } as const;
const filled = { 'moorage.dev/claim': 'prod/data-db-0', 'moorage.dev/content-source': 'volume/uid-pvc-1' };
const marked = (change: Parameters<typeof targetVolume>[0] = {}, annotations: Record<string, string> = {}) =>
  targetVolume({
    ...change,
    metadata: {
      annotations: { 'moorage.dev/move': 'aaaabbbb-1', ...filled, ...annotations },
      ...change.metadata,
    },
  });
const target = marked();
const unmarked = targetVolume({ metadata: { annotations: filled } });
const unmarkedSource = logicalVolumeOfTest('pvc-1', 'a');
const other = (phase: Parameters<typeof moveOfTest>[0], spec = {}) =>
  moveOfTest(phase, {}, { metadata: { name: 'other', uid: 'o' }, spec: { claimName: 'other', ...spec } });
const full = marked({ status: { code: 8, message: 'full' } });
const failed = [
  { type: 'Succeeded', status: 'False', reason: 'SourceLost', message: '', lastTransitionTime: 'now' },
] as const;

stepTests([
  ['without a finalizer', unplanned({ finalizers: [] }), {}, 'protect'],
  ['its volume is not requested yet', unplanned(), { target: undefined }, /^wait .*request of its volume/],
  ['its node has not answered', unplanned(), { target: marked({ status: {} }) }, /^wait .*node b/],
  ['its node is full', unplanned(), { target: full }, /^wait .*node b/],
  ['the volume is there', unplanned(), { target }, `plan a to b as ${targetVolumeName}`],
  [
    'the volume is of another claim',
    unplanned(),
    { target: marked({}, { 'moorage.dev/claim': 'x/y' }) },
    'refuse NotACopy',
  ],
  [
    'the volume is of another move',
    unplanned(),
    { target: marked({}, { 'moorage.dev/move': 'x' }) },
    'refuse NotACopy',
  ],
  ['the volume has all data', unplanned(), { target: unmarked }, 'refuse NotACopy'],
  ['the source is gone', unplanned(), { target, source: undefined }, 'abort SourceLost'],
  [
    'a move is ahead',
    unplanned(),
    { target, others: [other('Freezing')] },
    /^wait .*VolumeMove prod\/other.* one move/,
  ],
  ['a copy is cleaned up', unplanned(), { target, others: [other('Cleaning', { fill: 'x' })] }, /^wait .*one move/],
  ['a move only removes its source', unplanned(), { target, others: [other('Cleaning')] }, /^plan/],
  ['the claim was deleted', unplanned(), { target, claim: undefined }, 'abort ClaimDeleted'],
  ['the owner is another claim', unplanned({ ownerReferences: [] }), { target }, 'abort ClaimDeleted'],

  ['it is planned', copy('Pending'), { target, source: unmarkedSource }, 'mark-source'],
  ['its source is marked', copy('Pending'), { target }, 'enter Copying'],
  ...(['Copying', 'Opening', 'Cleaning', 'Aborting'] as const).map(
    (phase): Row => ['the source is not marked', copy(phase), { target, source: unmarkedSource }, 'mark-source'],
  ),
  ...(['Pending', 'Copying', 'Opening'] as const).flatMap((phase): readonly Row[] => [
    ['the claim was deleted', copy(phase), { target, claim: undefined }, 'abort ClaimDeleted'],
    ['the claim is being deleted', copy(phase), { target, claim: claimOfTest(gone) }, 'abort ClaimDeleted'],
    ['the move is being deleted', copy(phase, {}, gone.metadata), { target }, 'abort Requested'],
    ['the source is being deleted', copy(phase), { target, source: sourceVolume(gone) }, 'abort SourceLost'],
    ['the source node is gone', copy(phase), { target, sourceNode: undefined }, 'abort SourceNodeGone'],
    [
      'the source has grown',
      copy(phase),
      { target, source: sourceVolume({ status: { volumeID: 'x', currentSize: '2Gi' } }) },
      'abort SourceResized',
    ],
    [
      'the target node is being deleted',
      copy(phase),
      { target, targetNode: nodeOfTest('b', gone) },
      'abort TargetNodeGone',
    ],
  ]),
  ['the target is gone', copy('Copying'), { target: undefined }, 'abort TargetLost'],
  [
    'the data is on its way',
    copy('Copying', { target: { message: 'no route' } }),
    { target },
    /^wait .*node a; no route/,
  ],
  ['it has all data', copy('Copying', { target: { converged: true } }), { target }, 'enter Opening'],
  ['it is still closed', copy('Opening'), { target }, /^wait .*node b has opened/],
  ['it is open', copy('Opening', { target: { opened: true } }), { target }, 'enter Cleaning'],
  ['CreateVolume does not know yet', copy('Cleaning'), { target }, 'unmark-target'],
  ['the source is still read', copy('Cleaning'), { target: unmarked }, /^wait .*node a has released/],
  ['the source is released', copy('Cleaning', { source: { released: true } }), { target: unmarked }, 'finish'],
  ['the source node is gone', copy('Cleaning'), { target: unmarked, sourceNode: undefined }, 'finish'],
  ['it is over', copy('Done'), {}, 'delete-move'],
  ['it is over and deleted', copy('Done', {}, gone.metadata), {}, 'unmark-source'],
  ['its source is not marked any more', copy('Done', {}, gone.metadata), { source: unmarkedSource }, 'release'],
  ['it is over and released', copy('Done', {}, { ...gone.metadata, finalizers: [] }), {}, 'nothing'],

  ['the copy is there', copy('Aborting', { conditions: [...failed] }), { target }, 'delete-target'],
  ['the copy is another one', unplannedAborting, { target: unmarked }, 'enter Aborted'],
  [
    'the copy is being removed',
    copy('Aborting', { source: { released: true } }),
    { target: marked(gone) },
    /^wait .*node b/,
  ],
  ['the source is still read', copy('Aborting'), { target: undefined }, /^wait .*node a has released/],
  ['the source is released', copy('Aborting', { source: { released: true } }), { target: undefined }, 'enter Aborted'],
  [
    'the source is the volume of another claim',
    copy('Aborting'),
    { target: undefined, source: unmarkedSource },
    'enter Aborted',
  ],
  ['it was never planned', unplannedAborting, { target: undefined }, 'enter Aborted'],
]);
