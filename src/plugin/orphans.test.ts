import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { NodeFacts, PersistentVolumeFacts, VolumeFacts } from './facts.ts';
import { type Orphan, type OrphanFacts, orphanScreen, orphansOf, unlisted } from './orphans.ts';
import { persistentVolumeOfTest, volumeOfTest } from './testing/facts-of-test.ts';

const gibibyte = 1024n ** 3n;
const nowMs = Date.parse('2026-01-10T00:00:00Z');
const createdAt = '2026-01-07T00:00:00Z';
const justNow = '2026-01-09T23:50:00Z';

const volume = (changes: Partial<VolumeFacts> = {}) => volumeOfTest({ claim: 'shop/db', ...changes });
const pv = persistentVolumeOfTest;

type Volumes = NonNullable<NodeFacts['status']>['orphans']['volumes'];

function node(volumes: Volumes = [], total = volumes.length): NodeFacts {
  return {
    name: 'a',
    status: {
      ...{ nodeUID: 'uid', updatedAt: createdAt, erasures: { total: 0, volumes: [] }, versions: {}, features: {} },
      pools: [{ deviceClass: 'ssd', health: 'Healthy' }],
      orphans: { total, volumes },
    },
  };
}

function found(
  volumes: readonly VolumeFacts[],
  pvs: readonly PersistentVolumeFacts[] = [],
  more: Partial<OrphanFacts> = {},
): readonly Orphan[] {
  const persistentVolumes = new Map(pvs.map((each) => [each.handle, each]));
  const claims = new Map([['shop/db', { phase: 'Bound', isGrowing: false }]]);
  const nodes = { nodes: [node()], nodeNames: new Set(['a']) };
  const others = { staticVolumes: [], users: new Map(), agents: new Map() };
  return orphansOf({ volumes, persistentVolumes, claims, ...others, ...nodes, ...more }, nowMs);
}

const deletion =
  'kubectl annotate logicalvolume pvc-1 moorage.dev/allow-delete=true && kubectl delete logicalvolume pvc-1';
const importing = 'kubectl moorage import --node a > a.yaml\nkubectl moorage import -f a.yaml   # after a review';
const released = pv({ phase: 'Released', phaseSince: justNow });

type Expected = { readonly [Key in keyof Orphan]?: Orphan[Key] | undefined };
const rows: readonly [what: string, orphans: readonly Orphan[], expected: Expected | undefined][] = [
  ['a volume in use', found([volume()], [pv()]), undefined],
  ['a volume that is being created', found([volume({ createdAt: justNow, volumeId: undefined })]), undefined],
  ['a new volume whose PersistentVolume comes later', found([volume({ createdAt: justNow })]), undefined],
  ['a volume that is being deleted', found([volume({ isDeleting: true, deviceClass: 'hdd' })]), undefined],
  ['a snapshot', found([volume({ isSnapshot: true })]), undefined],
  ['a released volume that is not retained', found([volume()], [pv({ ...released, isRetained: false })]), undefined],
  ['a PersistentVolume that was just created', found([], [pv({ createdAt: justNow })]), undefined],
  [
    'a retained volume of a deleted claim',
    found([volume()], [released]),
    {
      kind: 'Released',
      since: justNow,
      lastOwner: 'shop/db',
      keep: 'kubectl moorage reattach pv/pvc-1',
      remove: 'kubectl moorage purge pv/pvc-1',
    },
  ],
  [
    'a missing volume whose claim exists',
    found([volume({ isMissing: true })], [pv()]),
    { kind: 'Missing', since: createdAt, remove: 'kubectl moorage drop pvc/db -n shop' },
  ],
  [
    'a missing volume that was released',
    found([volume({ isMissing: true })], [released]),
    { kind: 'Missing', remove: 'kubectl moorage purge pv/pvc-1' },
  ],
  [
    'a snapshot on a node that is gone',
    found([volume({ isSnapshot: true, node: 'gone' })]),
    {
      kind: 'NodeGone',
      reason: 'node gone is not in the cluster: return it with its disks; to give it up, delete its VolumeSnapshot',
      remove: undefined,
    },
  ],
  ['a volume on a node that is gone', found([volume({ node: 'gone' })]), { kind: 'NodeGone', remove: deletion }],
  [
    'a volume that is being deleted on a node that is gone',
    found([volume({ node: 'gone', isDeleting: true })]),
    { kind: 'NodeGone' },
  ],
  [
    'a claimed volume on a node that is gone',
    found([volume({ node: 'gone' })], [pv({ phase: 'Bound' })]),
    { kind: 'NodeGone', remove: 'kubectl moorage drop pvc/db -n shop' },
  ],
  ['a volume without a PersistentVolume', found([volume()]), { kind: 'Unclaimed', keep: importing, remove: deletion }],
  [
    'a refused volume that nobody deleted',
    found([volume({ volumeId: undefined, failure: 'no space' })]),
    { kind: 'Refused', reason: 'its node refused it: no space', remove: 'kubectl delete logicalvolume pvc-1' },
  ],
  [
    'a volume of a class that is not configured',
    found([volume({ deviceClass: 'hdd' })], [pv()]),
    { kind: 'ClassGone', keep: undefined, remove: undefined },
  ],
  [
    'a claimed PersistentVolume without a LogicalVolume',
    found([], [pv()]),
    {
      kind: 'NoLogicalVolume',
      keep: 'kubectl moorage reattach pv/pvc-1',
      remove: 'kubectl moorage drop pvc/db -n shop',
    },
  ],
  [
    'a released PersistentVolume without a LogicalVolume, on a node that is gone',
    found([], [released], { nodeNames: new Set() }),
    { kind: 'NoLogicalVolume', keep: undefined, remove: 'kubectl moorage purge pv/pvc-1' },
  ],
  [
    'a volume on the disks, created by Moorage',
    found([], [], {
      nodes: [
        node([
          {
            ...{ name: 'lv', deviceClass: 'ssd', size: '1Gi', since: justNow },
            tags: ['moorage.dev/created', 'moorage.dev/volume=pvc-9', 'moorage.dev/claim=shop/old'],
          },
        ]),
      ],
    }),
    {
      ...{ kind: 'DiskOnly', name: 'lv', lastOwner: 'shop/old', since: justNow, sizeBytes: gibibyte },
      keep: importing,
      remove: 'moorage volume rm --force lv   # in the moorage-node pod of a',
    },
  ],
  [
    'a volume on the disks that nobody tagged',
    found([], [], { nodes: [node([{ name: 'lv', deviceClass: 'ssd', size: '1Gi', tags: [] }])] }),
    {
      kind: 'DiskOnly',
      reason: 'on the disks of its node, without a LogicalVolume, and not created by Moorage',
      keep: 'kubectl moorage import --node a --volume lv > a.yaml\nkubectl moorage import -f a.yaml   # after a review',
      remove: undefined,
    },
  ],
  [
    'a snapshot on the disks',
    found([], [], {
      nodes: [node([{ name: 'lv', deviceClass: 'ssd', size: '1Gi', tags: ['moorage.dev/created'], readOnly: true }])],
    }),
    { kind: 'DiskOnly', keep: undefined, remove: 'moorage volume rm lv   # in the moorage-node pod of a' },
  ],
  [
    'a volume on the disks that was never used and cannot be used any more',
    found([], [], {
      nodes: [
        node([{ name: 'lv', deviceClass: 'ssd', size: '1Gi', tags: ['moorage.dev/created', 'moorage.dev/retired'] }]),
      ],
    }),
    { kind: 'DiskOnly', keep: undefined, remove: 'moorage volume rm lv   # in the moorage-node pod of a' },
  ],
  [
    'the inline volume of a pod that is gone',
    found([], [], {
      nodes: [node([{ name: 'csi-1', deviceClass: 'ssd', size: '1Gi', tags: ['ephemeral', 'moorage.dev/pod=p1'] }])],
    }),
    {
      kind: 'InlineLeftover',
      lastOwner: 'pod p1',
      keep: undefined,
      remove: 'moorage volume rm csi-1   # in the moorage-node pod of a',
    },
  ],
  [
    'a volume on the disks whose device class is not configured',
    found([], [], {
      nodes: [
        node([
          {
            ...{ name: 'lv', volumeGroup: 'old', size: '1Gi', since: justNow },
            tags: ['moorage.dev/created', 'moorage.dev/volume=pvc-9', 'moorage.dev/claim=shop/old'],
          },
        ]),
      ],
      agents: new Map([['a', 'moorage-system/moorage-node-x7zqd']]),
    }),
    {
      ...{ kind: 'ClassGone', name: 'lv', lastOwner: 'shop/old', since: justNow, sizeBytes: gibibyte },
      reason: 'in volume group old, without a LogicalVolume, and its device class was removed from the configuration',
      first: 'add {name: old, volume-group: old} to the device classes of node a',
      keep: importing,
      remove: 'kubectl exec -n moorage-system moorage-node-x7zqd -- moorage volume rm --force lv',
    },
  ],
  [
    'a thin inline volume of a pod that is gone, whose device class is not configured',
    found([], [], {
      nodes: [
        node([
          { name: 'csi-1', volumeGroup: 'old', thinPool: 'tp', size: '1Gi', tags: ['ephemeral', 'moorage.dev/pod=p1'] },
        ]),
      ],
    }),
    {
      ...{ kind: 'ClassGone', lastOwner: 'pod p1', keep: undefined },
      first:
        'add {name: tp, volume-group: old, type: thin, thin-pool: {name: tp, overprovision-ratio: 1}} to the device classes of node a',
      remove: 'moorage volume rm csi-1   # in the moorage-node pod of a',
    },
  ],
  [
    'a removed volume whose erasure was interrupted because its device class is not configured',
    found([], [], {
      nodes: [
        node([{ name: 'lv', volumeGroup: 'old', size: '1Gi', tags: ['moorage.dev/created', 'moorage.dev/erasing'] }]),
      ],
    }),
    {
      kind: 'ClassGone',
      reason: 'it was removed, and its data is being erased; that continues when volume group old has a device class',
      keep: undefined,
      remove: undefined,
    },
  ],
  [
    'a volume that was imported since its node reported',
    found([volume()], [pv()], { nodes: [node([{ name: 'id-pvc-1', deviceClass: 'ssd', size: '1Gi', tags: [] }])] }),
    undefined,
  ],
  [
    'a volume on the disks with the name of a volume of another node',
    found([volume({ node: 'b' })], [pv({ node: 'b' })], {
      nodes: [node([{ name: 'id-pvc-1', deviceClass: 'ssd', size: '1Gi', tags: [] }])],
      nodeNames: new Set(['a', 'b']),
    }),
    { kind: 'DiskOnly', name: 'id-pvc-1', node: 'a' },
  ],
  [
    'what a node reported before it was removed',
    found([], [], {
      nodes: [node([{ name: 'lv', deviceClass: 'ssd', size: '1Gi', tags: [] }])],
      nodeNames: new Set(),
    }),
    undefined,
  ],
];

for (const [what, orphans, expected] of rows) {
  test(`${what} ${expected ? `is an orphan: ${expected.kind}` : 'is no orphan'}`, () => {
    if (!expected) return assert.deepEqual(orphans, []);
    assert.equal(orphans.length, 1);
    for (const [key, value] of Object.entries(expected)) assert.equal(orphans[0]?.[key as keyof Orphan], value, key);
  });
}

test('orphans are in the order of kind, node and name, and agents say how many they did not list', () => {
  const orphans = found([
    volume({ name: 'pvc-10' }),
    volume({ name: 'pvc-2' }),
    volume({ name: 'x', isMissing: true }),
  ]);
  assert.deepEqual(
    orphans.map(({ name }) => name),
    ['x', 'pvc-2', 'pvc-10'],
  );
  const reports = [node([], 7), { name: 'silent', status: undefined }, { ...node([], 9), name: 'gone' }];
  assert.equal(unlisted({ nodes: reports, nodeNames: new Set(['a', 'silent']) }), 7);
});

test('the screen wraps sentences and never commands, and says what to do first', () => {
  const unserved = {
    name: 'lv',
    volumeGroup: 'old',
    size: '1Gi',
    tags: ['moorage.dev/volume=pvc-9', 'moorage.dev/created'],
  };
  const orphans = found([], [], { nodes: [node([unserved])] });
  assert.equal(
    orphanScreen(orphans, 'table', nowMs, { columns: 60, colours: false }),
    [
      'KIND       NAME  NODE  SIZE',
      'ClassGone  lv    a     1 GiB',
      '    first:  add {name: old, volume-group: old} to the device',
      '            classes of node a',
      '    keep:   kubectl moorage import --node a > a.yaml',
      '            kubectl moorage import -f a.yaml   # after a review',
      '    remove: moorage volume rm lv   # in the moorage-node pod of a',
    ].join('\n'),
  );
});

test('the screen shows the whole commands below each orphan, or what to do if there is none', () => {
  const orphans = found([volume(), volume({ name: 'pvc-2', deviceClass: 'hdd' })], [released, pv({ name: 'pvc-2' })]);
  assert.equal(
    orphanScreen(orphans, 'table', nowMs, { columns: 60, colours: false }),
    [
      'KIND       NAME   NODE  SIZE   AGE  LAST OWNER',
      'ClassGone  pvc-2  a     1 GiB  3d   shop/db',
      '    device class hdd is not configured on node a: add it to',
      '    the configuration again, also to remove the volume; if',
      '    it was renamed, the volume is still served',
      'Released   pvc-1  a     1 GiB  10m  shop/db',
      '    keep:   kubectl moorage reattach pv/pvc-1',
      '    remove: kubectl moorage purge pv/pvc-1',
    ].join('\n'),
  );
  assert.match(orphanScreen(orphans, 'wide', nowMs, { columns: undefined, colours: false }), /its data is retained/);
});
