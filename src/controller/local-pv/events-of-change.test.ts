import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PersistentVolume, Stored } from '../../kube/resource.ts';
import { eventsOfChange } from './events-of-change.ts';

const prefix = 'local-pv.k8s.portavita.net/';
const held = ['moorage.dev/local-pv'];
const claimRef = { namespace: 'shop', name: 'db', uid: 'claim' };

function pv(annotations: Record<string, string> = {}, finalizers: string[] = [], spec: PersistentVolume['spec'] = {}) {
  const metadata = { name: 'data', uid: 'pv', resourceVersion: '1', creationTimestamp: '', annotations, finalizers };
  return { metadata, spec } satisfies Stored<PersistentVolume>;
}

const onA = { [`${prefix}node`]: 'a' };
const processed = { ...onA, [`${prefix}status`]: 'Processed', [`${prefix}size`]: '1Gi', [`${prefix}fsType`]: 'xfs' };
const failed = { [`${prefix}status`]: 'Not-Processed-Errors', 'moorage.dev/message': 'volume group vg9 is not there' };
const bound = pv(processed, held, { claimRef });
const emptied = pv({ ...processed, 'moorage.dev/released': 'claim' }, held, { claimRef });

type Volume = Stored<PersistentVolume>;
const text = (events: ReturnType<typeof eventsOfChange>) =>
  events.map(({ type, reason, message }) => `${type} ${reason}: ${message}`);
const update = (previous: Volume, object: Volume, keepsData = false) =>
  text(eventsOfChange({ kind: 'updated', previous, object }, () => keepsData));
const remove = (object: Volume) => text(eventsOfChange({ kind: 'deleted', previous: object, object }, () => false));
const add = (object: Volume) => text(eventsOfChange({ kind: 'added', previous: undefined, object }, () => false));

test('each change of a static volume is reported once, in one sentence', () => {
  const rows: readonly (readonly [readonly string[], string])[] = [
    [update(pv(), pv(onA, held)), 'Normal NodeFound: found node a by the node affinity'],
    [
      update(pv({ ...onA, [`${prefix}node`]: 'node07' }), pv(onA, held)),
      'Normal NodeFound: found node a by the node affinity',
    ],
    [
      update(pv(onA, held), pv(processed, held)),
      'Normal VolumeProcessed: the volume of 1Gi is mounted on node a, with xfs',
    ],
    [update(pv(), pv(failed)), 'Warning NotProcessed: volume group vg9 is not there'],
    [
      update(pv(onA, held), pv({ ...onA, ...failed }, held)),
      'Warning NotProcessed: node a: volume group vg9 is not there',
    ],
    [
      update(emptied, pv(processed, held)),
      'Normal VolumeEmptied: emptied after claim shop/db was deleted, and available again',
    ],
    [
      update(bound, { ...bound, status: { phase: 'Released' } }, true),
      'Normal DataKept: no claim gets the volume, which has the data of claim shop/db, because moorage.dev/on-release is keep; to give it to one: kubectl moorage reattach pv/data',
    ],
    [
      remove(pv({ ...processed, 'moorage.dev/removed': 'true' })),
      'Normal VolumeRemoved: removed the volume from node a',
    ],
    [
      remove(pv(processed)),
      'Warning VolumeGivenUp: gave up the volume, because node a could not remove it; its data is still on the disks of that machine',
    ],
  ];
  for (const [events, expected] of rows) assert.deepEqual(events, [expected]);
});

test('an annotation that nothing reads is reported with those that exist', () => {
  const [event = '', ...others] = add(pv({ [`${prefix}fstype`]: 'xfs' }));
  assert.deepEqual(others, []);
  assert.match(
    event,
    /^Warning UnknownAnnotation: local-pv.k8s.portavita.net\/fstype has no effect; options are .*fsType,/,
  );
});

test('a change that means nothing to administrators is not reported', () => {
  assert.deepEqual(update(pv(processed, held), pv({ ...processed, note: 'x' }, held)), []);
  assert.deepEqual(update(pv(failed), pv({ ...failed, note: 'x' })), []);
  assert.deepEqual(update(pv({ [`${prefix}fstype`]: 'a' }), pv({ [`${prefix}fstype`]: 'b' })), []);
  assert.deepEqual(update(bound, pv(processed, held)), [], 'somebody else has removed the claimRef');
  const released = { ...bound, status: { phase: 'Released' } };
  assert.deepEqual(update(bound, released), [], 'its agent empties it, or auto-release is off');
  assert.deepEqual(update(released, { ...released, spec: { ...bound.spec } }, true), []);
  assert.deepEqual(remove(pv()), []);
});

test('a leader that sees a volume for the first time reports its current failure, not its past', () => {
  assert.deepEqual(add(pv(processed, held)), []);
  assert.deepEqual(add(pv({ ...onA, ...failed }, held)), [
    'Warning NotProcessed: node a: volume group vg9 is not there',
  ]);
});
