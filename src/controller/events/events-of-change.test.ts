import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { LogicalVolumeStatus, StoredLogicalVolume } from '../../api/logical-volume.ts';
import {
  adoptAnnotation,
  erasedAnnotation,
  filesystemErrorAnnotation,
  neverUsedAnnotation,
  pendingDeletionAnnotation,
  resizeRequestedAnnotation,
} from '../../api/names.ts';
import { eventsOfChange } from './events-of-change.ts';

function volume(status: LogicalVolumeStatus, metadata: Partial<StoredLogicalVolume['metadata']> = {}) {
  const meta = { name: 'pvc-1', uid: '1', resourceVersion: '1', creationTimestamp: '2026-01-01T00:00:00Z' };
  return {
    metadata: { ...meta, ...metadata },
    spec: { name: 'pvc-1', nodeName: 'a', size: '1Gi', deviceClass: 'ssd' },
    status,
  } satisfies StoredLogicalVolume;
}

const wanted = volume({});
const created = volume({ volumeID: '1', currentSize: '1Gi' });
const adopted = volume(created.status, { annotations: { [adoptAnnotation]: '1' } });
const refused = volume({ code: 8, message: 'device class ssd has 12Mi free; free space' });
const grown = volume({ volumeID: '1', currentSize: '2Gi' });
const resizing = { annotations: { [resizeRequestedAnnotation]: 'now' } };
const tooLarge = volume({ ...created.status, code: 8, message: 'no space', answeredResize: 'now' }, resizing);
const inUse = volume({ ...created.status, code: 9, message: 'in use' }, { deletionTimestamp: '2026-01-02T00:00:00Z' });
const mismatch = { [filesystemErrorAnnotation]: 'volume 1 holds xfs, ext4 requested' };
const unusable = volume(created.status, { annotations: mismatch });
const erased = volume(created.status, { annotations: { [erasedAnnotation]: 'true' } });
const neverUsed = volume(created.status, { annotations: { [neverUsedAnnotation]: 'true' } });
const givenUp = volume({ volumeID: '1' }, { annotations: { [pendingDeletionAnnotation]: 'true' } });

const lost = volume({ ...created.status, missingFrom: 'new-uid' });

const key = 'pvc-1';
const update = (previous: StoredLogicalVolume, object: StoredLogicalVolume) =>
  eventsOfChange({ kind: 'updated', key, previous, object });

test('each change of a volume is reported once, in one sentence', () => {
  const events = [
    update(wanted, created),
    update(wanted, adopted),
    update(wanted, refused),
    update(created, grown),
    update(created, tooLarge),
    update(created, unusable),
    update(created, inUse),
    eventsOfChange({ kind: 'deleted', key, object: created, previous: created }),
    eventsOfChange({ kind: 'deleted', key, object: erased, previous: erased }),
    eventsOfChange({ kind: 'deleted', key, object: givenUp, previous: created }),
    eventsOfChange({ kind: 'deleted', key, object: neverUsed, previous: neverUsed }),
    update(created, lost),
    update(lost, created),
    eventsOfChange({ kind: 'deleted', key, object: lost, previous: lost }),
  ];
  assert.deepEqual(
    events.flat().map((event) => `${event.type} ${event.reason}: ${event.message}`),
    [
      'Normal VolumeCreated: created a volume of 1Gi on node a, device class ssd',
      'Normal VolumeAdopted: adopted the existing volume of 1Gi on node a, device class ssd',
      'Warning VolumeRefused: node a cannot create the volume: device class ssd has 12Mi free; free space',
      'Normal VolumeGrown: grew the volume on node a from 1Gi to 2Gi',
      'Warning GrowthRefused: node a cannot grow the volume: no space',
      'Warning FilesystemRefused: node a cannot use the filesystem of the volume: volume 1 holds xfs, ext4 requested',
      'Warning RemovalRefused: node a cannot remove the volume: in use',
      'Normal VolumeRemoved: removed the volume from node a',
      'Normal VolumeErased: erased the volume and removed it from node a',
      'Warning VolumeGivenUp: gave up the volume because node a was removed; its data is still on that machine',
      'Normal UnclaimedVolumeRemoved: removed volume pvc-1 from node a: the claim that it was created for was deleted ' +
        'meanwhile, and it was never used',
      'Warning VolumeLost: volume 1 is not on the disks of node a: the machine or its disks were replaced, ' +
        'or its device class was removed from the configuration; bring the disks or the class back, ' +
        'or see what kubectl moorage drop would give up, and restore a backup',
      'Normal VolumeFound: the volume is on the disks of node a again',
      'Warning VolumeGivenUp: gave up the volume, which was not on the disks of node a',
    ],
  );
});

test('a failed growth does not hide that the filesystem cannot be used', () => {
  const both = volume(tooLarge.status, { annotations: { ...resizing.annotations, ...mismatch } });
  const reasons = (previous: StoredLogicalVolume) => update(previous, both).map(({ reason }) => reason);
  assert.deepEqual(reasons(tooLarge), ['FilesystemRefused']);
  assert.deepEqual(reasons(created), ['GrowthRefused', 'FilesystemRefused'], 'both changes were seen at once');
});

test('a change that means nothing to users is not reported', () => {
  assert.deepEqual(update(refused, { ...refused, metadata: { ...refused.metadata, resourceVersion: '2' } }), []);
  assert.deepEqual(update(created, created), []);
  assert.deepEqual(update(unusable, { ...unusable, metadata: { ...unusable.metadata, resourceVersion: '2' } }), []);
  assert.deepEqual(update(unusable, created), [], 'the running pod shows that it works again');
  assert.deepEqual(eventsOfChange({ kind: 'deleted', key, object: refused, previous: refused }), []);
});

test('a leader that sees a volume for the first time reports its current failure, not its past', () => {
  const first = (object: StoredLogicalVolume) =>
    eventsOfChange({ kind: 'added', key, object, previous: undefined }).map(({ reason }) => reason);
  assert.deepEqual(first(created), []);
  assert.deepEqual(first(refused), ['VolumeRefused']);
  assert.deepEqual(first(lost), ['VolumeLost']);
  assert.deepEqual(first(unusable), ['FilesystemRefused']);
});
