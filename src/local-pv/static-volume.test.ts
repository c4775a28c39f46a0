import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PersistentVolume, Stored } from '../kube/resource.ts';
import { noDefaults, parseDefaults } from './defaults.ts';
import { effectiveOptions, isStaticVolume, staticVolume, unknownAnnotations } from './static-volume.ts';

const prefix = 'local-pv.k8s.portavita.net/';

interface Changes {
  readonly annotations?: Record<string, string>;
  readonly path?: string;
  readonly spec?: Partial<NonNullable<PersistentVolume['spec']>>;
  readonly name?: string;
}

function pv({ annotations = {}, path = '/mnt/pv/search-node1', spec, name = 'search-node1' }: Changes = {}) {
  const metadata = { name, uid: 'uid-1', resourceVersion: '1', annotations };
  const defaults = { local: { path }, capacity: { storage: '30Gi' }, storageClassName: 'search' };
  return { metadata, spec: { ...defaults, ...spec } } as Stored<PersistentVolume>;
}

const request = (changes?: Changes) => staticVolume(pv(changes), noDefaults, '/mnt/pv');

test('only PersistentVolumes below the mount base, or with annotations for Moorage, are static volumes', () => {
  const is = (changes: Changes) => isStaticVolume(pv(changes), '/mnt/pv');
  assert.equal(is({}), true);
  assert.equal(is({ path: '/mnt/pvs/a' }), false);
  assert.equal(is({ path: '/mnt/disks/a' }), false);
  assert.equal(is({ path: '/mnt/disks/a', annotations: { [`${prefix}vg`]: 'vg0' } }), true);
  assert.equal(isStaticVolume({ spec: { nfs: { server: 'a', path: '/mnt/pv/a' } } }, '/mnt/pv'), false);
});

test('sizes are exact in every unit', () => {
  const sizeOf = (storage: string) => request({ spec: { capacity: { storage } } }).sizeBytes;
  assert.equal(sizeOf('5G'), 5_000_000_000n);
  assert.equal(sizeOf('5Gi'), 5n * 1024n ** 3n);
  assert.equal(sizeOf('1536Ki'), 1536n * 1024n);
  assert.equal(sizeOf('1073741824'), 1024n ** 3n);
});

test('the size is that of the annotation if it is larger than the capacity', () => {
  const sizeOf = (annotations: Record<string, string>) => request({ annotations }).sizeBytes / 1024n ** 3n;
  assert.equal(sizeOf({ [`${prefix}size`]: '40Gi' }), 40n);
  assert.equal(sizeOf({ [`${prefix}size`]: '20Gi', [`${prefix}status`]: 'Processed' }), 30n); // the capacity was raised
  assert.throws(() => sizeOf({ [`${prefix}size`]: '20Gi' }), /size is 20Gi, less than spec.capacity.storage 30Gi/);
});

test('an existing volume is adopted if the annotation says so, or k8s-local-pv has processed it', () => {
  const adopts = (annotations: Record<string, string>) => request({ annotations }).adopt;
  assert.equal(adopts({}), false);
  assert.equal(adopts({ 'moorage.dev/adopt': 'true' }), true);
  assert.equal(adopts({ [`${prefix}status`]: 'Processed' }), true);
  assert.equal(adopts({ [`${prefix}status`]: 'Not-Processed-Errors' }), false);
  assert.equal(adopts({ [`${prefix}status`]: 'Not-Processed-Errors', 'moorage.dev/processed': 'true' }), true);
});

test('annotations come before the defaults of the storage class', () => {
  const defaults = parseDefaults({ 'defaults.yaml': 'storageClasses: {search: {fsType: xfs, vg: fast}}' });
  const read = staticVolume(pv({ annotations: { [`${prefix}vg`]: 'slow' } }), defaults, '/mnt/pv');
  assert.deepEqual([read.filesystem.name, read.place], ['xfs', { volumeGroup: 'slow' }]);
});

test('the effective options are written back, and read as the same request', () => {
  const annotations = {
    [`${prefix}fsOpts`]: '-i 8192',
    [`${prefix}mountOpts`]: 'noexec,noatime',
    'moorage.dev/device-class': 'thin',
  };
  const first = request({ annotations });
  const written = effectiveOptions(first, 32n * 1024n ** 3n, 'vg0');
  assert.deepEqual(written, {
    ...annotations,
    [`${prefix}fsType`]: 'ext4',
    [`${prefix}cryptSecret`]: '',
    [`${prefix}vg`]: 'vg0',
    [`${prefix}size`]: '32Gi',
    [`${prefix}mountPoint`]: '/mnt/pv/search-node1',
  });
  assert.deepEqual(request({ annotations: written }), { ...first, sizeBytes: 32n * 1024n ** 3n });
});

test('annotations that nothing reads are reported', () => {
  const annotations = { [`${prefix}fstype`]: 'xfs', [`${prefix}fsType`]: 'xfs', 'example.org/fsType': 'xfs' };
  assert.deepEqual(unknownAnnotations(pv({ annotations })), [`${prefix}fstype`]);
});

test('a PersistentVolume that can never be processed is refused with the field and the remedy', () => {
  const rows: readonly (readonly [Changes, RegExp])[] = [
    [{ path: '/mnt/pv/other' }, /spec.local.path is \/mnt\/pv\/other; .* write \/mnt\/pv\/search-node1/],
    [{ path: '/mnt/disks/a' }, /spec.local.path is \/mnt\/disks\/a/],
    [{ spec: { persistentVolumeReclaimPolicy: 'Delete' } }, /persistentVolumeReclaimPolicy is Delete, .* use Retain/],
    [{ spec: { volumeMode: 'Block' } }, /spec.volumeMode is Block/],
    [{ spec: { capacity: {} } }, /spec.capacity.storage is ""/],
    [{ annotations: { [`${prefix}size`]: 'big' } }, /size is "big"; write a size/],
    [{ annotations: { [`${prefix}mountPoint`]: '/data' } }, /mountPoint is \/data, but spec.local.path is/],
    [{ name: 'snapshot-1', path: '/mnt/pv/snapshot-1' }, /volume name "snapshot-1" is not allowed/],
  ];
  for (const [changes, message] of rows) assert.throws(() => request(changes), { code: 'InvalidArgument', message });
});
