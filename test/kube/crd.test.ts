import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { parseAllDocuments } from 'yaml';
import {
  bytesOf,
  type LogicalVolume,
  type LogicalVolumeSpec,
  type LogicalVolumeStatus,
  logicalVolumes,
} from '../../src/api/logical-volume.ts';
import { type NodeStorageStatus, nodeStorages } from '../../src/api/node-storage.ts';
import { volumeMoves } from '../../src/api/volume-move.ts';
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import { Informer } from '../../src/kube/informer.ts';
import type { KubeObject, Resource } from '../../src/kube/resource.ts';
import { startApiServer } from './api-server.ts';

interface Crd extends KubeObject {
  readonly status?: { readonly conditions?: readonly { readonly type: string; readonly status: string }[] };
}

const crds: Resource<Crd> = {
  group: 'apiextensions.k8s.io',
  version: 'v1',
  plural: 'customresourcedefinitions',
  kind: 'CustomResourceDefinition',
  namespaced: false,
};
const { admin } = await startApiServer();
await applyCrds();

async function applyCrds(): Promise<void> {
  const documents = parseAllDocuments(await readFile(join(import.meta.dirname, '../../deploy/crd.yaml'), 'utf8'));
  const informer = new Informer({ client: admin, resource: crds, clock: systemClock, log: silentLog });
  informer.start();
  const isServed = (current: Crd | undefined) =>
    current?.status?.conditions?.some(({ type, status }) => type === 'Established' && status === 'True') === true;
  for (const document of documents) {
    const { metadata } = await admin.create(crds, document.toJS() as Crd);
    await informer.until(metadata.name, isServed, AbortSignal.timeout(120_000));
  }
  await informer.stop();
}

/** Creates it in two writes, like controller and node. */
async function stored(object: LogicalVolume & { readonly metadata: { readonly name: string } }) {
  const { status, ...requested } = object;
  await admin.create(logicalVolumes, requested);
  return answer(object.metadata.name, status ?? {});
}

function answer(name: string, status: LogicalVolumeStatus) {
  return admin.patch(logicalVolumes, name, { type: 'merge', body: { status } }, { subresource: 'status' });
}

function ask(name: string, spec: Partial<Record<keyof LogicalVolumeSpec, unknown>>) {
  return admin.patch(logicalVolumes, name, { type: 'merge', body: { spec } });
}

const spec = { name: 'pvc-1', nodeName: 'a', size: '1Gi' };

/** Objects as TopoLVM's controller and node leave them, with the odd values of its releases. */
const fromTopolvm: readonly (LogicalVolume & { readonly metadata: { readonly name: string } })[] = [
  {
    metadata: {
      name: 'pvc-6b5a8f0e-5d5c-4a5e-9d6f-0c7f1b1d2e3f',
      finalizers: ['topolvm.io/logicalvolume'],
      labels: { 'app.kubernetes.io/created-by': 'topolvm-controller' },
      annotations: { 'topolvm.io/resize-requested-at': '2026-08-01 10:00:00.123456789 +0000 UTC' },
    },
    spec: {
      name: 'pvc-6b5a8f0e-5d5c-4a5e-9d6f-0c7f1b1d2e3f',
      nodeName: 'worker-1.example.com',
      size: '1000M',
      deviceClass: 'ssd',
      lvcreateOptionClass: 'raid1',
    },
    status: { volumeID: '2f6a0e0f-0b7f-4c53-8d1f-6b1b0e6f7a11', code: 0, message: '', currentSize: '1002438656' },
  },
  {
    metadata: { name: 'snapshot-1' },
    spec: { ...spec, name: 'snapshot-1', source: 'pvc-1', accessType: 'ro', deviceClass: 'thin' },
    status: { volumeID: 'u', currentSize: '1Gi' },
  },
  { metadata: { name: 'clone' }, spec: { ...spec, name: 'clone', source: 'snapshot-1', accessType: 'rw' } },
  {
    metadata: { name: 'empty-fields' },
    spec: { ...spec, deviceClass: '', lvcreateOptionClass: '', source: '', accessType: '' },
    status: { volumeID: '', code: 2, message: 'rpc error: code = Unknown desc = exit status 5' },
  },
  { metadata: { name: 'not-measured' }, spec: { ...spec, size: '1073741824' }, status: { volumeID: 'v' } },
  { metadata: { name: 'by-hand' }, spec: { ...spec, size: 1073741824 }, status: { currentSize: 1073741824 } },
  {
    metadata: { name: 'fraction', annotations: { 'topolvm.io/pendingdeletion': 'true' } },
    spec: { ...spec, size: '1.5Gi' },
  },
];

for (const object of fromTopolvm) {
  test(`${object.metadata.name}, created by TopoLVM, is accepted, updated and grown`, async () => {
    const { spec, status } = await stored(object);
    assert.deepEqual(spec, object.spec, 'no field is lost');
    assert.deepEqual(status, object.status ?? {});
    assert.ok(bytesOf(spec.size) >= 1_000_000_000n);

    const { name } = object.metadata;
    const resizeRequestedAt = '2026-08-02 10:00:00 +0000 UTC';
    const metadata = { annotations: { 'topolvm.io/resize-requested-at': resizeRequestedAt } };
    await admin.patch(logicalVolumes, name, { type: 'merge', body: { metadata, spec: { size: '2Gi' } } });
    const grown = await answer(name, { currentSize: '2Gi', code: 0, answeredResize: resizeRequestedAt });
    assert.equal(grown.status?.answeredResize, resizeRequestedAt);
  });
}

test('the fields that identify the volume cannot be changed', async () => {
  const name = 'fixed';
  const whole = { deviceClass: 'ssd', lvcreateOptionClass: 'raid1', source: 'pvc-0', accessType: 'rw' } as const;
  await stored({ metadata: { name }, spec: { ...spec, ...whole } });
  for (const field of ['name', 'nodeName', ...(Object.keys(whole) as (keyof typeof whole)[])] as const) {
    const other = field === 'accessType' ? 'ro' : 'other';
    const message = new RegExp(`spec.${field}: .*${field} cannot be changed; `);
    await assert.rejects(ask(name, { [field]: other }), { code: 'InvalidArgument', message });
  }
  for (const field of Object.keys(whole)) await assert.rejects(ask(name, { [field]: null }), /cannot be changed/);
});

test('a missing field may become empty, and an empty one may be removed', async () => {
  const empty = { deviceClass: '', lvcreateOptionClass: '', source: '', accessType: '' } as const;
  await stored({ metadata: { name: 'left-out' }, spec });
  await ask('left-out', empty);
  await ask('left-out', Object.fromEntries(Object.keys(empty).map((field) => [field, null])));
});

test('a size only grows, but a request that was not met can be lowered to the current size', async () => {
  await stored({ metadata: { name: 'growing' }, spec, status: { volumeID: 'w', currentSize: '1Gi' } });
  const lowered = { code: 'InvalidArgument', message: /size cannot be lowered below status.currentSize/ };
  await assert.rejects(ask('growing', { size: '512Mi' }), lowered);
  await ask('growing', { size: '10Gi' });
  await ask('growing', { size: '2Gi' });
  await ask('growing', { size: 1024 ** 3 });
  await assert.rejects(ask('growing', { size: '1023Mi' }), lowered);

  await stored({ metadata: { name: 'not-made' }, spec });
  await assert.rejects(ask('not-made', { size: '512Mi' }), lowered, 'its node may be making it');
});

test('an invalid LogicalVolume is rejected', async () => {
  for (const [wrong, message] of [
    [{ size: '0' }, /size must be above zero/],
    [{ size: '-1Gi' }, /size must be above zero/],
    [{ size: 0 }, /size must be above zero/],
    [{ size: 'much' }, /spec.size/],
    [{ name: '' }, /spec.name/],
    [{ accessType: 'rx' }, /accessType: Unsupported value: "rx": supported values: "", "ro", "rw"/],
  ] as const) {
    const requested = { metadata: { name: 'wrong' }, spec: { ...spec, ...wrong } } as LogicalVolume;
    await assert.rejects(admin.create(logicalVolumes, requested), { code: 'InvalidArgument', message });
  }
});

test('field selectors find the volumes of a node, and a volume by its ID', async () => {
  await stored({ metadata: { name: 'on-c' }, spec: { ...spec, nodeName: 'c' }, status: { volumeID: 'odd\\,=id' } });
  const names = async (fieldSelector: string) => {
    const { items } = await admin.list(logicalVolumes, { fieldSelector });
    return items.map(({ metadata }) => metadata.name);
  };
  assert.deepEqual(await names('spec.nodeName=c'), ['on-c']);
  assert.deepEqual(await names('status.volumeID=odd\\\\\\,\\=id'), ['on-c']);
});

test('volumeID can be set only once', async () => {
  const fixed = { code: 'InvalidArgument', message: /status.volumeID: .*cannot be changed once it is set/ };
  await stored({ metadata: { name: 'named' }, spec, status: { volumeID: '' } });
  await answer('named', { volumeID: 'x', currentSize: '1Gi' });
  for (const volumeID of ['y', '']) await assert.rejects(answer('named', { volumeID }), fixed);
  const put = (status: object | null) =>
    admin.patch(logicalVolumes, 'named', { type: 'merge', body: { status } }, { subresource: 'status' });
  await assert.rejects(put({ volumeID: null }), fixed);
  await assert.rejects(put(null), fixed);
  await answer('named', { volumeID: 'x', code: 8, message: 'no room to grow' });
});

test('a NodeStorage is written with one request and loses no field', async () => {
  const status: NodeStorageStatus = {
    nodeUID: 'u',
    updatedAt: '2026-01-01T00:00:00Z',
    health: 'Unavailable',
    pools: [
      {
        deviceClass: 'thin',
        default: true,
        type: 'thin',
        volumeGroup: 'vg0',
        volumeGroupUUID: 'a1b2c3-d4e5',
        thinPool: 'pool0',
        health: 'Degraded',
        reason: 'full',
        size: '10Gi',
        used: '9Gi',
        free: '0',
        spare: '0',
        volumes: 3,
        thin: { dataPercent: 90, metadataPercent: 4 },
      },
      { deviceClass: 'files', type: 'file', directory: '/data', health: 'Unavailable', reason: 'not mounted' },
    ],
    erasures: { total: 1, volumes: [{ name: 'gone', deviceClass: 'thin', size: '1Gi', donePercent: 5 }] },
    orphans: { total: 1, volumes: [{ name: 'lost', deviceClass: 'thin', size: '1Gi', tags: ['moorage.dev/created'] }] },
    versions: { moorage: '1', kernel: '6', lvm: '2', e2fsprogs: '1.47', xfsprogs: '6.1', btrfsProgs: '6.2' },
    features: { ioLimits: true, segmentTypes: ['thin'] },
  };
  const apply = (body: object) =>
    admin.patch(nodeStorages, 'a', { type: 'apply', body, fieldManager: 'test', force: true });
  const first = await apply({ status });
  assert.deepEqual(first.status, status);
  const again = await apply({ status });
  assert.equal(again.metadata.resourceVersion, first.metadata.resourceVersion, 'nothing changed, so nothing is stored');
  const { versions: _, ...incomplete } = status;
  await assert.rejects(apply({ status: incomplete }), {
    code: 'InvalidArgument',
    message: /status.versions: Required/,
  });
});

test('a VolumeMove cannot be changed, and neither can its verdict', async () => {
  const place = { namespace: 'default' };
  const patch = (body: object, subresource?: 'status') =>
    admin.patch(volumeMoves, 'm', { type: 'merge', body }, { ...place, ...(subresource && { subresource }) });
  await admin.create(volumeMoves, { metadata: { name: 'm', ...place }, spec: { claimName: 'c', rateLimit: '10Mi' } });
  await assert.rejects(patch({ spec: { targetNode: 'b' } }), { message: /a move cannot be changed/ });
  const verdict = { round: 2, bytes: 2 ** 40, sha256: 'abc' };
  const status = { phase: 'Committed', sourceNode: 'a', targetNode: 'b', manifest: '{}', verdict };
  assert.deepEqual((await patch({ status }, 'status')).status, status);
  for (const change of [{ manifest: null }, { manifest: '{"x":1}' }, { verdict: null }, { verdict: { bytes: 1 } }]) {
    await assert.rejects(patch({ status: change }, 'status'), { message: /manifest and verdict cannot be changed/ });
  }
  const named = async (fieldSelector: string) => (await admin.list(volumeMoves, { fieldSelector })).items.length;
  assert.deepEqual([await named('status.sourceNode=a'), await named('status.targetNode=a')], [1, 0]);
  const bad = { metadata: { name: 'bad', ...place }, spec: { claimName: 'c', rateLimit: 0 } };
  await assert.rejects(admin.create(volumeMoves, bad), { message: /rateLimit must be above zero/ });
});

test('a VolumeMove can be deleted, however inconsistent its status is', async () => {
  const place = { namespace: 'default' };
  const verdict = { round: 1, bytes: 1, sha256: '' };
  const statuses = {
    'manifest-without-verdict': { manifest: '{}' },
    'verdict-without-manifest': { phase: 'Aborting', verdict },
    'manifest-in-a-new-move': { manifest: '', verdict, source: { released: true }, conditions: [] },
  } as const;
  for (const [name, status] of Object.entries(statuses)) {
    const metadata = { name, ...place, finalizers: ['moorage.dev/volume-move'] };
    await admin.create(volumeMoves, { metadata, spec: { claimName: 'c' } });
    await admin.patch(volumeMoves, name, { type: 'merge', body: { status } }, { ...place, subresource: 'status' });
    await admin.delete(volumeMoves, name, place);
    await admin.patch(volumeMoves, name, { type: 'merge', body: { metadata: { finalizers: null } } }, place);
    assert.equal(await admin.get(volumeMoves, name, place), undefined, name);
  }
});
