import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PersistentVolume, Stored } from '../kube/resource.ts';
import type { Facts } from './facts.ts';
import { staticVolumeFacts, staticVolumeOrphan, staticVolumeRow } from './static-volumes.ts';
import { statusOf } from './status.ts';
import { volumeDetails } from './volume.ts';
import { volumeRows } from './volumes.ts';

const prefix = 'local-pv.k8s.portavita.net/';
const gibi = 1024n ** 3n;
const claimRef = { namespace: 'shop', name: 'data-search-0', uid: 'claim' };
const processed = {
  [`${prefix}node`]: 'a',
  [`${prefix}status`]: 'Processed',
  [`${prefix}vg`]: 'storage_bulk',
  [`${prefix}fsType`]: 'xfs',
  [`${prefix}size`]: '31Gi',
};

interface Changes {
  readonly annotations?: Record<string, string>;
  readonly finalizers?: string[];
  readonly phase?: string;
  readonly deletionTimestamp?: string;
  readonly bound?: boolean;
}

function pv({ annotations = processed, phase = 'Bound', bound = true, ...metadata }: Changes = {}) {
  return {
    metadata: {
      ...{ name: 'search-a', uid: 'u', resourceVersion: '1', creationTimestamp: '2026-01-07T00:00:00Z', annotations },
      finalizers: ['moorage.dev/local-pv'],
      ...metadata,
    },
    spec: {
      local: { path: '/mnt/pv/search-a' },
      capacity: { storage: '30Gi' },
      storageClassName: 'search',
      persistentVolumeReclaimPolicy: 'Retain',
      ...(bound && { claimRef }),
    },
    status: { phase },
  } satisfies Stored<PersistentVolume>;
}

const facts = (changes?: Changes) => staticVolumeFacts(pv(changes)) ?? assert.fail();
const users = new Map([['shop/data-search-0', ['search-0']]]);
const all = (changes?: Changes): Facts => ({
  ...{ volumes: [], persistentVolumes: new Map(), claims: new Map(), agents: new Map() },
  staticVolumes: [facts(changes)],
  users,
});

test('a row shows the claim, pods, node, volume group and size of a static volume', () => {
  assert.deepEqual(volumeRows(all()), [
    {
      ...{ name: 'search-a', namespace: 'shop', claim: 'data-search-0', pods: ['search-0'], node: 'a' },
      ...{ deviceClass: 'storage_bulk', storageClass: 'search', sizeBytes: 31n * gibi, health: 'Healthy' },
      createdAt: '2026-01-07T00:00:00Z',
    },
  ]);
});

test('only PersistentVolumes that Moorage has seen are static volumes', () => {
  const refused = { [`${prefix}status`]: 'Not-Processed-Errors', 'moorage.dev/message': 'no node' };
  assert.ok(staticVolumeFacts(pv({ annotations: refused, finalizers: [] })));
  assert.equal(staticVolumeFacts(pv({ annotations: {}, finalizers: [] })), undefined);
  assert.equal(staticVolumeFacts({ ...pv(), spec: { nfs: { server: 'a', path: '/' } } }), undefined);
});

test('the health of a static volume', () => {
  const failed = { ...processed, [`${prefix}status`]: 'Not-Processed-Errors', 'moorage.dev/message': 'vg9 is missing' };
  const rows: readonly (readonly [Changes, string, RegExp?])[] = [
    [{}, 'Healthy'],
    [{ phase: 'Available', bound: false }, 'Healthy'],
    [{ annotations: {} }, 'Creating'],
    [{ annotations: { [`${prefix}node`]: 'a', [`${prefix}size`]: 'big' } }, 'Creating'],
    [{ annotations: failed }, 'Failed', /^vg9 is missing$/],
    [{ annotations: failed, deletionTimestamp: 'now' }, 'Failed', /^vg9 is missing$/],
    [{ deletionTimestamp: 'now' }, 'Deleting'],
    [{ phase: 'Released' }, 'Released', /its claim shop\/data-search-0 was deleted, and its data is kept/],
    [
      { phase: 'Released', annotations: { ...processed, [`${prefix}autoRelease`]: 'true' } },
      ...(['Released', /it is emptied and becomes available again/] as const),
    ],
    [{ annotations: { ...processed, 'moorage.dev/node-removed': 'uid' } }, 'NodeGone', /node a is not in the cluster/],
  ];
  for (const [changes, health, reason] of rows) {
    const row = staticVolumeRow(facts(changes), { users });
    assert.equal(row.health, health, JSON.stringify(changes));
    if (reason) assert.match(row.reason ?? '', reason);
  }
});

test('a static volume that failed is a problem in the status, with its message', () => {
  const annotations = { [`${prefix}status`]: 'Not-Processed-Errors', 'moorage.dev/message': 'no node; label one' };
  const { problems, healthy } = statusOf(
    all({ annotations, bound: false }),
    [],
    [{ name: 'a', unready: undefined }],
    0,
  );
  assert.equal(healthy, false);
  assert.deepEqual(problems, [{ severity: 'error', about: 'volume search-a', what: 'no node; label one' }]);
  assert.equal(
    statusOf(all(), undefined, [{ name: 'a', unready: undefined }], 0).healthy,
    true,
    'without CSI there is no NodeStorage',
  );
});

test('a static volume is an orphan if its node is gone, or if it is released and stays so', () => {
  const claims = new Map([['shop/data-search-0', { phase: 'Bound', isGrowing: false }]]);
  const orphan = (changes: Changes, ...nodes: string[]) => staticVolumeOrphan(facts(changes), claims, new Set(nodes));
  assert.equal(orphan({}, 'a'), undefined);
  const { kind, remove, lastOwner } = orphan({}, 'b') ?? {};
  assert.deepEqual([kind, lastOwner], ['NodeGone', 'shop/data-search-0']);
  assert.equal(remove, 'kubectl delete pvc -n shop data-search-0 && kubectl delete pv search-a');
  const released = orphan({ phase: 'Released' }, 'a');
  assert.equal(released?.kind, 'Released');
  assert.equal(released?.remove, 'kubectl delete pv search-a');
  assert.equal(released?.keep, 'kubectl moorage reattach pv/search-a');
  const reused = { ...processed, [`${prefix}autoRelease`]: 'true' };
  assert.equal(orphan({ phase: 'Released', annotations: reused }, 'a'), undefined);
  const kept = { ...reused, 'moorage.dev/on-release': 'keep' };
  assert.equal(orphan({ phase: 'Released', annotations: kept }, 'a')?.kind, 'Released');
  assert.equal(orphan({ annotations: {} }), undefined, 'it has no node yet');
});

test('one static volume is shown with its filesystem and path, and without a LogicalVolume', () => {
  const objects = { volume: undefined, persistentVolume: pv(), claim: undefined, pods: [], events: [] };
  const { filesystem, path, health, persistentVolume } = volumeDetails(objects);
  assert.deepEqual([filesystem, path, health, persistentVolume], ['xfs', '/mnt/pv/search-a', 'Healthy', 'search-a']);
});
