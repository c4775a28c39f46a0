import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { MessageInitShape } from '@bufbuild/protobuf';
import {
  type CreateVolumeRequestSchema,
  VolumeCapability_AccessMode_Mode as Mode,
  type VolumeCapabilitySchema,
} from '../../rpc/gen/csi/v1/csi_pb.ts';
import { servedController } from '../testing/in-memory-stores.ts';

const timeoutMs = 120_000;
const gibi = 1024n ** 3n;
const node = (name: string) => ({ segments: { 'topology.topolvm.io/node': name } });
const mounted: MessageInitShape<typeof VolumeCapabilitySchema> = {
  accessMode: { mode: Mode.SINGLE_NODE_WRITER },
  accessType: { case: 'mount', value: {} },
};
const block = { ...mounted, accessType: { case: 'block', value: {} } } as const;
const manyNodes = { ...mounted, accessMode: { mode: Mode.MULTI_NODE_MULTI_WRITER } };

/** A request as a plain object, some fields set. */
type CreateRequest = Extract<MessageInitShape<typeof CreateVolumeRequestSchema>, { $typeName?: never }>;

function request(changes: CreateRequest): CreateRequest {
  return {
    name: 'pvc-1',
    volumeCapabilities: [mounted],
    accessibilityRequirements: { preferred: [node('a')], requisite: [node('b'), node('a')] },
    ...changes,
  };
}

const anywhere: CreateRequest = { name: 'pvc-1', volumeCapabilities: [mounted] };
const copyOf = (volumeId: string) => ({ type: { case: 'volume', value: { volumeId } } }) as const;
const restored = (snapshotId: string) => ({ type: { case: 'snapshot', value: { snapshotId } } }) as const;

test('a volume is created on the node where its pod was scheduled', async (t) => {
  const { volumes, calls } = await servedController(t);
  const { volume } = await calls.createVolume(
    request({
      capacityRange: { requiredBytes: gibi },
      parameters: {
        'topolvm.io/device-class': 'fast',
        'topolvm.io/lvcreate-option-class': 'mirrored',
        'csi.storage.k8s.io/pvc/namespace': 'shop',
        'csi.storage.k8s.io/pvc/name': 'db',
        'moorage.dev/root-mode': '0750',
      },
    }),
    { timeoutMs },
  );
  assert.deepEqual(volumes.wanted, [
    {
      name: 'pvc-1',
      nodeNames: ['a', 'b'],
      deviceClass: 'fast',
      lvcreateOptionClass: 'mirrored',
      isEncrypted: false,
      sizeBytes: gibi,
      claim: 'shop/db',
    },
  ]);
  assert.equal(volume?.volumeId, 'uid-1');
  assert.equal(volume.capacityBytes, gibi + 1n, 'what it really has');
  assert.deepEqual(volume.accessibleTopology[0]?.segments, { 'topology.topolvm.io/node': 'a' });
  assert.deepEqual(volume.volumeContext, { 'moorage.dev/root-mode': '0750' }, 'what the node needs to know');
});

test('without a topology, the node with the most free space comes first', async (t) => {
  const { volumes, calls } = await servedController(t);
  await calls.createVolume(anywhere, { timeoutMs });
  assert.deepEqual(volumes.wanted[0]?.nodeNames, ['b', 'a']);

  const parameters = { 'topolvm.io/device-class': 'none' };
  await assert.rejects(calls.createVolume({ ...anywhere, parameters }, { timeoutMs }), {
    code: 'ResourceExhausted',
    message: /^no node offers device class none; check/,
  });
});

test('of several nodes the first one with enough free space comes first, and a single node is always used', async (t) => {
  const { volumes, calls } = await servedController(t);
  const capacityRange = { requiredBytes: 20n * gibi };
  await calls.createVolume(request({ capacityRange }), { timeoutMs });
  assert.deepEqual(volumes.wanted[0]?.nodeNames, ['b', 'a'], 'a is preferred and too small');
  const accessibilityRequirements = { requisite: [node('a')] };
  await calls.createVolume(request({ capacityRange, accessibilityRequirements }), { timeoutMs });
  assert.deepEqual(volumes.wanted[1]?.nodeNames, ['a'], 'the node itself reports that it is full');
});

test('no volume is created on a node that is being deleted', async (t) => {
  const { volumes, calls } = await servedController(t);
  const among = (...names: string[]) => request({ accessibilityRequirements: { requisite: names.map(node) } });
  await calls.createVolume(among('leaving', 'a'), { timeoutMs });
  assert.deepEqual(volumes.wanted[0]?.nodeNames, ['a']);
  await assert.rejects(calls.createVolume(among('leaving'), { timeoutMs }), {
    code: 'ResourceExhausted',
    message: /^node leaving is being deleted and gets no new volumes/,
  });
});

const refused: readonly [string, CreateRequest, RegExp][] = [
  ['without a name', { name: '' }, /^name is missing/],
  ['without capabilities', { volumeCapabilities: [] }, /^volume_capabilities is missing/],
  [
    'for many nodes',
    { volumeCapabilities: [manyNodes] },
    /^volume_capabilities\[0\]\.access_mode MULTI_NODE_MULTI_WRITER is not supported/,
  ],
  [
    'that is neither mounted nor raw',
    { volumeCapabilities: [mounted, { accessMode: { mode: Mode.SINGLE_NODE_WRITER } }] },
    /^volume_capabilities\[1\]\.access_type is missing/,
  ],
  [
    'with an unknown filesystem',
    { volumeCapabilities: [{ ...mounted, accessType: { case: 'mount', value: { fsType: 'ntfs' } } }] },
    /fs_type "ntfs" is not supported; use one of ext4/,
  ],
  ['with an impossible range', { capacityRange: { requiredBytes: 2n, limitBytes: 1n } }, /limit_bytes/],
  [
    'with a mistyped parameter',
    { parameters: { 'topolvm.io/device-clas': 'x' } },
    /^unknown name "topolvm.io\/device-clas" in parameters; did you mean topolvm.io\/device-class\?$/,
  ],
  ['with an invalid root mode', { parameters: { 'moorage.dev/root-mode': 'rwx' } }, /^moorage.dev\/root-mode is "rwx"/],
  [
    'with an unknown encryption',
    { parameters: { 'moorage.dev/encryption': 'rot13' } },
    /^moorage.dev\/encryption is "rot13"; use luks2, or leave it out$/,
  ],
  ['with an unknown limit', { mutableParameters: { speed: '1' } }, /^unknown name "speed" in mutable_parameters/],
  [
    'with a foreign topology',
    { accessibilityRequirements: { requisite: [{ segments: { zone: '1' } }] } },
    /accessibility_requirements name no node/,
  ],
  ['with a source of no kind', { volumeContentSource: {} }, /^volume_content_source.type is missing/],
];

for (const [how, changes, message] of refused) {
  test(`a volume ${how} is refused`, async (t) => {
    const { volumes, calls } = await servedController(t);
    await assert.rejects(calls.createVolume(request(changes), { timeoutMs }), { code: 'InvalidArgument', message });
    assert.deepEqual(volumes.wanted, []);
  });
}

test('parameters with foreign prefixes are ignored', async (t) => {
  const { volumes, calls } = await servedController(t);
  await calls.createVolume(request({ parameters: { 'example.com/colour': 'red' } }), { timeoutMs });
  assert.equal(volumes.wanted.length, 1);
});

test('a copy is created on the node of its source, with the same size unless more is requested', async (t) => {
  const { volumes, calls } = await servedController(t);
  const onB = { accessibilityRequirements: { requisite: [node('b')] } };
  await calls.createVolume(request({ ...onB, capacityRange: { requiredBytes: 2n * gibi } }), { timeoutMs });

  const volumeContentSource = copyOf('uid-1');
  const { volume } = await calls.createVolume({ ...anywhere, name: 'copy', volumeContentSource }, { timeoutMs });
  const { nodeNames, sizeBytes, source } = volumes.wanted[1] ?? {};
  assert.deepEqual([nodeNames, source], [['b'], { kind: 'volume', id: 'uid-1' }]);
  assert.equal(sizeBytes, 2n * gibi + 4096n, 'what the source really has, in whole pages');
  const { type } = volume?.contentSource ?? {};
  assert.equal(type?.case === 'volume' && type.value.volumeId, 'uid-1');

  const larger = request({ name: 'larger', volumeContentSource, capacityRange: { requiredBytes: 3n * gibi } });
  await calls.createVolume(larger, { timeoutMs });
  assert.deepEqual([volumes.wanted[2]?.nodeNames, volumes.wanted[2]?.sizeBytes], [['b'], 3n * gibi]);
});

test('a snapshot is restored on its node', async (t) => {
  const { volumes, calls } = await servedController(t);
  const { snapshot } = await calls.createSnapshot({ name: 's', sourceVolumeId: 'uid-1' }, { timeoutMs });
  const volumeContentSource = restored(snapshot?.snapshotId ?? '');
  await calls.createVolume({ ...anywhere, volumeContentSource }, { timeoutMs });
  assert.deepEqual(volumes.wanted[0]?.source, { kind: 'snapshot', id: 'snap-1' });
  assert.deepEqual(volumes.wanted[0].nodeNames, ['a']);
});

test('an impossible copy is refused with the reason', async (t) => {
  const { volumes, calls } = await servedController(t);
  await calls.createVolume(request({}), { timeoutMs });
  const volumeContentSource = copyOf('uid-1');
  const impossible: readonly [CreateRequest, string, RegExp][] = [
    [{ volumeContentSource: copyOf('uid-9') }, 'NotFound', /names volume uid-9, which does not exist; check/],
    [{ volumeContentSource: copyOf('') }, 'NotFound', /which does not exist/],
    [{ volumeContentSource: restored('uid-1') }, 'NotFound', /names snapshot uid-1, which does not exist/],
    [
      { volumeContentSource, parameters: { 'topolvm.io/device-class': 'fast' } },
      'InvalidArgument',
      /has the default device class, so its copy cannot have device class fast; use a StorageClass/,
    ],
    [
      { volumeContentSource, accessibilityRequirements: { requisite: [node('b')] } },
      'ResourceExhausted',
      /volume uid-1 is on node a, so its copy cannot be on b; run its pod on a, or create the claim with the annotation moorage.dev\/cross-node: allow$/,
    ],
  ];
  for (const [changes, code, message] of impossible) {
    await assert.rejects(calls.createVolume(request(changes), { timeoutMs }), { code, message });
  }
  assert.equal(volumes.wanted.length, 1);
});

test('an encrypted volume has room for its header, and its node is told', async (t) => {
  const { volumes, calls } = await servedController(t);
  const parameters = { 'moorage.dev/encryption': 'luks2' };
  const capacityRange = { requiredBytes: 1n };
  const { volume } = await calls.createVolume(request({ parameters, capacityRange }), { timeoutMs });
  assert.deepEqual(volume?.volumeContext, parameters);
  assert.deepEqual([volumes.wanted[0]?.isEncrypted, volumes.wanted[0]?.sizeBytes], [true, (32n + 16n) * 1024n ** 2n]);
  const growth = { volumeId: 'uid-1', capacityRange: { requiredBytes: gibi }, volumeCapability: block };
  assert.equal((await calls.controllerExpandVolume(growth, { timeoutMs })).nodeExpansionRequired, true);
});

test('a copy is encrypted exactly if its source is', async (t) => {
  const { volumes, snapshots, calls } = await servedController(t);
  const encrypted = { parameters: { 'moorage.dev/encryption': 'luks2' } };
  await calls.createVolume(request({ name: 'plain' }), { timeoutMs });
  await calls.createVolume(request({ name: 'encrypted', ...encrypted }), { timeoutMs });
  const snapshot = await snapshots.create({ name: 's', sourceId: 'uid-2' });
  snapshots.stored.set(snapshot.id, { ...snapshot, isEncrypted: true });

  for (const [changes, message] of [
    [
      { volumeContentSource: copyOf('uid-1'), ...encrypted },
      /^volume uid-1 is not encrypted, so its copy cannot be; use a StorageClass without moorage.dev\/encryption$/,
    ],
    [
      { volumeContentSource: copyOf('uid-2') },
      /^volume uid-2 is encrypted, so its copy is too; use a StorageClass with moorage.dev\/encryption: luks2 and the same Secret$/,
    ],
    [{ volumeContentSource: restored(snapshot.id) }, /^snapshot snap-1 is encrypted, so its copy is too;/],
  ] as const) {
    await assert.rejects(calls.createVolume(request(changes), { timeoutMs }), { code: 'InvalidArgument', message });
  }
  for (const volumeContentSource of [copyOf('uid-2'), restored(snapshot.id)]) {
    await calls.createVolume(request({ volumeContentSource, ...encrypted }), { timeoutMs });
    assert.equal(volumes.wanted.at(-1)?.isEncrypted, true);
  }
});

test('a claim or its class can allow that its source is copied from another node', async (t) => {
  const { volumes, sent, calls } = await servedController(t);
  await calls.createVolume(request({}), { timeoutMs });
  const claim = (name: string) => ({
    'csi.storage.k8s.io/pvc/namespace': 'shop',
    'csi.storage.k8s.io/pvc/name': name,
  });
  const copy = { volumeContentSource: copyOf('uid-1'), accessibilityRequirements: { requisite: [node('b')] } };
  const allowed = { 'moorage.dev/cross-node': 'allow' };
  for (const parameters of [claim('anywhere'), { ...claim('db'), ...allowed }]) {
    await calls.createVolume(request({ ...copy, parameters }), { timeoutMs });
    const { nodeNames, source, sourceNode, sizeBytes } = volumes.wanted.at(-1) ?? {};
    assert.deepEqual([nodeNames, source, sourceNode], [['b'], { kind: 'volume', id: 'uid-1' }, 'a']);
    assert.ok(Number(sizeBytes) > gibi, 'it has room for all of its source, which is a byte larger than requested');
  }
  assert.deepEqual(sent, []);
  await calls.createVolume(request({ ...copy, accessibilityRequirements: {}, parameters: claim('anywhere') }), {
    timeoutMs,
  });
  assert.deepEqual([volumes.wanted.at(-1)?.nodeNames, volumes.wanted.at(-1)?.sourceNode], [['a'], undefined]);

  const small = { ...copy, parameters: claim('anywhere'), capacityRange: { requiredBytes: 1n, limitBytes: gibi } };
  const refused: readonly [CreateRequest, RegExp][] = [
    [small, /limit_bytes allows 1 GiB, the volume needs/],
    [{ ...copy, parameters: allowed }, /is on node a, so its copy cannot be on b/],
    [{ parameters: { 'moorage.dev/cross-node': 'yes' } }, /invalid moorage.dev\/cross-node "yes"; use allow/],
  ];
  for (const [changes, message] of refused) {
    await assert.rejects(calls.createVolume(request(changes), { timeoutMs }), { message });
  }
});

test('a claim whose copy was requested on another node is sent to the node of the source', async (t) => {
  const { sent, calls } = await servedController(t);
  const forClaim = {
    parameters: { 'csi.storage.k8s.io/pvc/namespace': 'shop', 'csi.storage.k8s.io/pvc/name': 'db' },
  };
  await calls.createVolume(request(forClaim), { timeoutMs });
  const copy = { ...forClaim, name: 'pvc-2', volumeContentSource: copyOf('uid-1') };
  const onlyOnB = { accessibilityRequirements: { requisite: [node('b')] } };
  await assert.rejects(calls.createVolume(request({ ...copy, ...onlyOnB }), { timeoutMs }), /is on node a/);
  assert.deepEqual(sent, ['shop/db to a']);

  await calls.createVolume(request(copy), { timeoutMs });
  await assert.rejects(
    calls.createVolume(request({ ...copy, ...onlyOnB, parameters: {} }), { timeoutMs }),
    /on node a/,
  );
  assert.deepEqual(sent, ['shop/db to a'], 'no other claim is sent');
});

test('DeleteVolume requires an id and never deletes a snapshot', async (t) => {
  const { volumes, snapshots, calls } = await servedController(t);
  await calls.createVolume(request({}), { timeoutMs });
  await calls.createSnapshot({ name: 's', sourceVolumeId: 'uid-1' }, { timeoutMs });
  await calls.deleteVolume({ volumeId: 'snap-1' }, { timeoutMs });
  await calls.deleteVolume({ volumeId: 'uid-1' }, { timeoutMs });
  assert.deepEqual([volumes.stored.size, snapshots.stored.size], [0, 1]);
  await assert.rejects(calls.deleteVolume({}, { timeoutMs }), {
    code: 'InvalidArgument',
    message: /^volume_id is missing/,
  });
});

test('ControllerExpandVolume answers the size, and whether the node must grow a filesystem', async (t) => {
  const { calls } = await servedController(t);
  await calls.createVolume(request({}), { timeoutMs });
  const grow = (changes: object) =>
    calls.controllerExpandVolume(
      { volumeId: 'uid-1', capacityRange: { requiredBytes: 2n * gibi - 1n }, ...changes },
      { timeoutMs },
    );
  const { capacityBytes, nodeExpansionRequired } = await grow({ volumeCapability: mounted });
  assert.deepEqual([capacityBytes, nodeExpansionRequired], [2n * gibi, true]);
  assert.equal((await grow({ volumeCapability: block })).nodeExpansionRequired, false);
  assert.equal((await grow({})).nodeExpansionRequired, true);

  for (const [changes, message] of [
    [{ volumeId: '' }, /^volume_id is missing/],
    [{ capacityRange: undefined }, /^capacity_range is missing/],
    [{ capacityRange: { limitBytes: gibi } }, /^capacity_range.required_bytes is missing/],
    [{ capacityRange: { requiredBytes: 2n * gibi, limitBytes: gibi } }, /^capacity_range.limit_bytes allows 1 GiB/],
    [{ volumeCapability: manyNodes }, /^volume_capability.access_mode MULTI_NODE_MULTI_WRITER/],
  ] as const) {
    await assert.rejects(grow(changes), { code: 'InvalidArgument', message });
  }
});

test('volumes can be listed page by page and read one by one', async (t) => {
  const { calls } = await servedController(t);
  for (const name of ['x', 'y', 'z']) await calls.createVolume(request({ name }), { timeoutMs });
  const first = await calls.listVolumes({ maxEntries: 2 }, { timeoutMs });
  const second = await calls.listVolumes({ maxEntries: 2, startingToken: first.nextToken }, { timeoutMs });
  const ids = [first, second].map(({ entries }) => entries.map(({ volume }) => volume?.volumeId));
  assert.deepEqual(ids, [['uid-1', 'uid-2'], ['uid-3']]);
  assert.equal(second.nextToken, '');
  await assert.rejects(calls.listVolumes({ startingToken: 'other' }, { timeoutMs }), { code: 'Aborted' });

  const { volume, status } = await calls.controllerGetVolume({ volumeId: 'uid-2' }, { timeoutMs });
  assert.deepEqual([volume?.volumeId, status?.publishedNodeIds], ['uid-2', []]);
  await assert.rejects(calls.controllerGetVolume({ volumeId: 'uid-9' }, { timeoutMs }), { code: 'NotFound' });
});

test('ValidateVolumeCapabilities confirms only what the volume supports', async (t) => {
  const { calls } = await servedController(t);
  await calls.createVolume(request({ parameters: { 'topolvm.io/device-class': 'fast' } }), { timeoutMs });
  const validate = (changes: object) =>
    calls.validateVolumeCapabilities({ volumeId: 'uid-1', volumeCapabilities: [mounted], ...changes }, { timeoutMs });

  const parameters = { 'topolvm.io/device-class': 'fast' };
  const mutableParameters = { 'moorage.dev/read-bytes-per-second': '1Mi' };
  const { confirmed } = await validate({ parameters, mutableParameters });
  assert.deepEqual([confirmed?.volumeCapabilities.length, confirmed?.parameters], [1, parameters]);

  for (const [changes, reason] of [
    [{ volumeCapabilities: [mounted, manyNodes] }, /^volume_capabilities\[1\]\.access_mode MULTI_NODE_MULTI_WRITER/],
    [{ parameters: { 'topolvm.io/device-class': 'slow' } }, /was created with topolvm.io\/device-class fast, not slow/],
    [
      { parameters: { 'moorage.dev/encryption': 'luks2' } },
      /was created with moorage.dev\/encryption unset, not luks2/,
    ],
    [{ parameters: { 'moorage.dev/colour': 'red' } }, /^unknown name "moorage.dev\/colour" in parameters/],
    [{ volumeContext: { 'moorage.dev/root-mode': '9' } }, /^moorage.dev\/root-mode is "9"/],
    [{ mutableParameters: { speed: '1' } }, /^unknown name "speed" in mutable_parameters/],
  ] as const) {
    const answer = await validate(changes);
    assert.equal(answer.confirmed, undefined);
    assert.match(answer.message, reason);
  }
  await assert.rejects(validate({ volumeId: 'uid-2' }), { code: 'NotFound' });
  await assert.rejects(validate({ volumeId: '' }), { code: 'InvalidArgument' });
  await assert.rejects(validate({ volumeCapabilities: [] }), { code: 'InvalidArgument' });
});
