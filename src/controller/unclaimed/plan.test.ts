import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { LogicalVolume, StoredLogicalVolume } from '../../api/logical-volume.ts';
import { graceMs, nextStep, type Step, type Surroundings } from './plan.ts';

const uid = '0fce22ea-7d7d-4fd7-b35e-3ba0fa8cf1b6';
const nowMs = Date.parse('2026-01-10T00:00:00Z');

interface Changes {
  readonly name?: string;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly spec?: Partial<LogicalVolume['spec']>;
  readonly status?: Partial<NonNullable<LogicalVolume['status']>>;
  readonly deletionTimestamp?: string;
}

function volume({ name = `pvc-${uid}`, annotations, spec, status, ...metadata }: Changes = {}): StoredLogicalVolume {
  return {
    metadata: {
      ...{ name, uid: 'u1', resourceVersion: '1', creationTimestamp: '2026-01-09T00:00:00Z' },
      annotations: { 'moorage.dev/claim': 'shop/db', ...annotations },
      ...metadata,
    },
    spec: { name, nodeName: 'a', size: '1Gi', ...spec },
    status: { volumeID: 'u1', currentSize: '1Gi', ...status },
  };
}

const nothing: Step = { kind: 'nothing' };
const alone: Surroundings = { hasPersistentVolume: false, hasClaim: false, sinceMs: nowMs - graceMs, nowMs };
const asked = { 'moorage.dev/unclaimed': '2026-01-09T23:00:00Z' };
const answered = { ...asked, 'moorage.dev/never-used': 'true' };

const rows: readonly [what: string, volume: StoredLogicalVolume, changes: Partial<Surroundings>, step: Step][] = [
  ['with a PersistentVolume', volume(), { hasPersistentVolume: true }, nothing],
  ['whose claim exists', volume(), { hasClaim: true }, { kind: 'wait', ms: graceMs }],
  ['that csi-provisioner may still retry', volume(), { sinceMs: nowMs - graceMs + 1 }, { kind: 'wait', ms: 1 }],
  ['without claim and PersistentVolume', volume(), {}, { kind: 'ask' }],
  ['whose node has not answered, or has no proof', volume({ annotations: asked }), {}, nothing],
  [
    'whose node has answered something else',
    volume({ annotations: { ...answered, 'moorage.dev/never-used': '' } }),
    {},
    nothing,
  ],
  ['that was never used', volume({ annotations: answered }), {}, { kind: 'delete' }],
  ['that nobody asked about', volume({ annotations: { 'moorage.dev/never-used': 'true' } }), {}, { kind: 'ask' }],
  [
    'that got a PersistentVolume',
    volume({ annotations: answered }),
    { hasPersistentVolume: true },
    { kind: 'withdraw' },
  ],
  ['whose claim is there after all', volume({ annotations: asked }), { hasClaim: true }, { kind: 'withdraw' }],
  ['that is being created', volume({ status: { volumeID: '' } }), {}, nothing],
  ['that is being deleted', volume({ annotations: answered, deletionTimestamp: '2026-01-09T00:00:00Z' }), {}, nothing],
  ['that is missing', volume({ status: { missingFrom: 'n' } }), {}, nothing],
  ['that is a snapshot', volume({ spec: { source: 'pvc-2', accessType: 'ro' }, annotations: answered }), {}, nothing],
  ['that is a clone', volume({ spec: { source: 'pvc-2', accessType: 'rw' }, annotations: answered }), {}, nothing],
  [
    'that was restored',
    volume({ annotations: { ...answered, 'moorage.dev/content-source': 'snapshot/s' } }),
    {},
    nothing,
  ],
  ['that was adopted', volume({ annotations: { ...answered, 'moorage.dev/adopt': 'u1' } }), {}, nothing],
  [
    'that has the name of another on the disk',
    volume({ annotations: answered, status: { volumeID: 'lv-1' } }),
    {},
    nothing,
  ],
  ['whose node was removed', volume({ annotations: { ...answered, 'moorage.dev/node-removed': 'n' } }), {}, nothing],
  ['that was given up', volume({ annotations: { ...answered, 'topolvm.io/pendingdeletion': 'true' } }), {}, nothing],
  ['that was not created for a claim', volume({ name: 'mine', annotations: answered }), {}, nothing],
  ['whose claim is unknown', volume({ annotations: { ...answered, 'moorage.dev/claim': '' } }), {}, nothing],
];

for (const [what, object, changes, step] of rows) {
  const outcome = step.kind === 'wait' ? `is looked at again in ${step.ms} ms` : `needs: ${step.kind}`;
  test(`a volume ${what} ${outcome}`, () => assert.deepEqual(nextStep(object, { ...alone, ...changes }), step));
}
