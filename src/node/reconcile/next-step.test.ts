import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { LogicalVolumeStatus, StoredLogicalVolume } from '../../api/logical-volume.ts';
import { nextStep, type Step } from './logical-volume-reconciler.ts';

const ours = ['topolvm.io/logicalvolume'];
const created: LogicalVolumeStatus = { volumeID: 'uid', currentSize: '1Gi', code: 0 };

function volume(metadata: Partial<StoredLogicalVolume['metadata']>, status?: LogicalVolumeStatus): StoredLogicalVolume {
  return {
    metadata: { name: 'pvc-1', uid: 'uid', resourceVersion: '1', creationTimestamp: '', ...metadata },
    spec: { name: 'pvc-1', nodeName: 'a', size: '1Gi' },
    ...(status && { status }),
  };
}

function larger(status: LogicalVolumeStatus): StoredLogicalVolume {
  const asked = volume({ finalizers: ours }, status);
  return { ...asked, spec: { ...asked.spec, size: '2Gi' } };
}

const deletionTimestamp = '2026-01-01T00:00:00Z';
const deleted = (object: StoredLogicalVolume): StoredLogicalVolume => ({
  ...object,
  metadata: { ...object.metadata, deletionTimestamp },
});
const rows: readonly [string, StoredLogicalVolume, Step][] = [
  ['new', volume({ finalizers: ours }), 'create'],
  ['new, without the finalizer', volume({}), 'create'],
  ['to be adopted', volume({ finalizers: ours, annotations: { 'moorage.dev/adopt': 'lv' } }), 'adopt'],
  ['adopted', volume({ finalizers: ours, annotations: { 'moorage.dev/adopt': 'lv' } }, created), 'nothing'],
  ['refused to be adopted', volume({ annotations: { 'moorage.dev/adopt': 'lv' } }, { code: 5 }), 'nothing'],
  ['created', volume({ finalizers: ours }, created), 'nothing'],
  ['created, without a reported size', volume({ finalizers: ours }, { volumeID: 'uid' }), 'measure'],
  ['created, with a larger size requested', larger(created), 'grow'],
  ['created, with a failed growth', larger({ ...created, code: 8 }), 'grow'],
  ['created, with a failed growth that was withdrawn', volume({ finalizers: ours }, { ...created, code: 8 }), 'settle'],
  ['larger than requested', volume({ finalizers: ours }, { ...created, currentSize: '1028Mi' }), 'nothing'],
  ['failed', volume({ finalizers: ours }, { code: 8, message: 'full' }), 'nothing'],
  ['created and being deleted', volume({ finalizers: ours, deletionTimestamp }, created), 'remove'],
  ['new and being deleted', volume({ finalizers: ours, deletionTimestamp }), 'remove'],
  ['failed and being deleted', volume({ finalizers: ours, deletionTimestamp }, { code: 8 }), 'remove'],
  ['growing and being deleted', deleted(larger(created)), 'remove'],
  ['released, with finalizers of others', volume({ finalizers: ['x'], deletionTimestamp }, created), 'nothing'],
  [
    'released by the controller',
    volume({ finalizers: ours, deletionTimestamp, annotations: { 'topolvm.io/pendingdeletion': 'true' } }, created),
    'nothing',
  ],
];

for (const [state, object, step] of rows) {
  test(`a volume that is ${state}: ${step}`, () => assert.equal(nextStep(object), step));
}
