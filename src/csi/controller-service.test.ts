import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { MessageInitShape } from '@bufbuild/protobuf';
import {
  Controller,
  type CreateVolumeRequestSchema,
  VolumeCapability_AccessMode_Mode as Mode,
  type VolumeCapabilitySchema,
} from '../rpc/gen/csi/v1/csi_pb.ts';
import { serving } from '../rpc/serving.ts';
import { controllerService } from './controller-service.ts';
import type { StoredVolume, VolumeStore, WantedVolume } from './volume-store.ts';

const timeoutMs = 10_000;
const gibi = 1024n ** 3n;
const node = (name: string) => ({ segments: { 'topology.topolvm.io/node': name } });
const mounted: MessageInitShape<typeof VolumeCapabilitySchema> = {
  accessMode: { mode: Mode.SINGLE_NODE_WRITER },
  accessType: { case: 'mount', value: {} },
};

/** A request as a plain object, some fields set. */
type Wish = Extract<MessageInitShape<typeof CreateVolumeRequestSchema>, { $typeName?: never }>;

class RecordingStore implements Pick<VolumeStore, 'create' | 'find' | 'remove'> {
  readonly wanted: WantedVolume[] = [];
  readonly removed: string[] = [];

  async create(wanted: WantedVolume): Promise<StoredVolume> {
    this.wanted.push(wanted);
    return { ...wanted, id: 'uid-1', nodeName: wanted.nodeNames[0], sizeBytes: wanted.sizeBytes + 1n };
  }

  async find(id: string): Promise<StoredVolume | undefined> {
    const volume = { id, name: 'pvc-1', nodeName: 'a', deviceClass: '', lvcreateOptionClass: '', sizeBytes: gibi };
    return id === 'uid-1' ? volume : undefined;
  }

  async remove(id: string): Promise<void> {
    this.removed.push(id);
  }
}

/** Two nodes with the default class, one of them also with `fast`. */
async function controller(t: TestContext) {
  const volumes = new RecordingStore();
  const free = new Map([
    ['', new Map([['a', 10n * gibi] as const, ['b', 30n * gibi] as const])],
    ['fast', new Map([['a', 5n * gibi]])],
  ]);
  const capacities = {
    freeBytes: (deviceClass: string) => free.get(deviceClass) ?? new Map<string, bigint>(),
    limitingIo: () => new Set<string>(),
  };
  return { volumes, calls: await serving(t, Controller, controllerService({ volumes, capacities })) };
}

function request(changes: Wish): Wish {
  return {
    name: 'pvc-1',
    volumeCapabilities: [mounted],
    accessibilityRequirements: { preferred: [node('a')], requisite: [node('b'), node('a')] },
    ...changes,
  };
}

test('a volume is made on the node where the pod was scheduled', async (t) => {
  const { volumes, calls } = await controller(t);
  const { volume } = await calls.createVolume(
    request({
      capacityRange: { requiredBytes: gibi },
      parameters: {
        'topolvm.io/device-class': 'fast',
        'csi.storage.k8s.io/pvc/namespace': 'shop',
        'csi.storage.k8s.io/pvc/name': 'db',
      },
    }),
    { timeoutMs },
  );
  assert.deepEqual(volumes.wanted, [
    {
      name: 'pvc-1',
      nodeNames: ['a', 'b'],
      deviceClass: 'fast',
      lvcreateOptionClass: '',
      sizeBytes: gibi,
      claim: 'shop/db',
    },
  ]);
  assert.equal(volume?.volumeId, 'uid-1');
  assert.equal(volume.capacityBytes, gibi + 1n, 'what it really has');
  assert.deepEqual(volume.accessibleTopology[0]?.segments, { 'topology.topolvm.io/node': 'a' });
});

test('without a topology the roomiest node is asked first', async (t) => {
  const { volumes, calls } = await controller(t);
  const { accessibilityRequirements: _, ...anywhere } = request({});
  await calls.createVolume(anywhere, { timeoutMs });
  assert.deepEqual(volumes.wanted[0]?.nodeNames, ['b', 'a']);

  const parameters = { 'topolvm.io/device-class': 'none' };
  await assert.rejects(calls.createVolume({ ...anywhere, parameters }, { timeoutMs }), {
    code: 'ResourceExhausted',
    message: /^no node offers device class none; check/,
  });
});

const refused: readonly [string, Wish, RegExp][] = [
  ['without a name', { name: '' }, /^name is missing/],
  ['without capabilities', { volumeCapabilities: [] }, /^volume_capabilities is missing/],
  [
    'for many nodes',
    { volumeCapabilities: [{ ...mounted, accessMode: { mode: Mode.MULTI_NODE_MULTI_WRITER } }] },
    /^volume_capabilities\[0\]\.access_mode MULTI_NODE_MULTI_WRITER cannot be had/,
  ],
  [
    'neither mounted nor raw',
    { volumeCapabilities: [mounted, { accessMode: { mode: Mode.SINGLE_NODE_WRITER } }] },
    /^volume_capabilities\[1\]\.access_type is missing/,
  ],
  [
    'with an unknown filesystem',
    { volumeCapabilities: [{ ...mounted, accessType: { case: 'mount', value: { fsType: 'ntfs' } } }] },
    /fs_type "ntfs" is not offered; choose one of ext4/,
  ],
  ['with an impossible range', { capacityRange: { requiredBytes: 2n, limitBytes: 1n } }, /limit_bytes/],
  [
    'with a mistyped parameter',
    { parameters: { 'topolvm.io/device-clas': 'x' } },
    /"topolvm.io\/device-clas", which is unknown/,
  ],
  [
    'with a foreign topology',
    { accessibilityRequirements: { requisite: [{ segments: { zone: '1' } }] } },
    /accessibility_requirements name no node/,
  ],
  [
    'as a copy',
    { volumeContentSource: { type: { case: 'volume', value: { volumeId: 'v' } } } },
    /^volume_content_source is not offered/,
  ],
];

for (const [how, changes, message] of refused) {
  test(`a volume ${how} is refused`, async (t) => {
    const { volumes, calls } = await controller(t);
    await assert.rejects(calls.createVolume(request(changes), { timeoutMs }), { code: 'InvalidArgument', message });
    assert.deepEqual(volumes.wanted, []);
  });
}

test('parameters of others are left alone', async (t) => {
  const { volumes, calls } = await controller(t);
  await calls.createVolume(request({ parameters: { 'example.com/colour': 'red' } }), { timeoutMs });
  assert.equal(volumes.wanted.length, 1);
});

test('deleting needs a volume', async (t) => {
  const { volumes, calls } = await controller(t);
  await calls.deleteVolume({ volumeId: 'uid-1' }, { timeoutMs });
  assert.deepEqual(volumes.removed, ['uid-1']);
  await assert.rejects(calls.deleteVolume({}, { timeoutMs }), {
    code: 'InvalidArgument',
    message: /^volume_id is missing/,
  });
});

test('capacity is that of the node, or of all of them', async (t) => {
  const { calls } = await controller(t);
  const room = async (accessibleTopology?: ReturnType<typeof node>, deviceClass = '') => {
    const answer = await calls.getCapacity(
      {
        parameters: { 'topolvm.io/device-class': deviceClass },
        ...(accessibleTopology && { accessibleTopology }),
      },
      { timeoutMs },
    );
    return [answer.availableCapacity, answer.maximumVolumeSize];
  };
  assert.deepEqual(await room(node('b')), [30n * gibi, 30n * gibi]);
  assert.deepEqual(await room(), [40n * gibi, 30n * gibi]);
  assert.deepEqual(await room(node('b'), 'fast'), [0n, 0n]);
  assert.deepEqual(await room(node('unknown')), [0n, 0n]);
  assert.deepEqual(await room({ segments: { 'topology.topolvm.io/node': 'a' } }, 'unknown'), [0n, 0n]);
});

test('capabilities are confirmed for a volume that exists', async (t) => {
  const { calls } = await controller(t);
  const volumeCapabilities = [mounted];
  const { confirmed } = await calls.validateVolumeCapabilities(
    { volumeId: 'uid-1', volumeCapabilities },
    { timeoutMs },
  );
  assert.equal(confirmed?.volumeCapabilities.length, 1);
  await assert.rejects(calls.validateVolumeCapabilities({ volumeId: 'uid-2', volumeCapabilities }, { timeoutMs }), {
    code: 'NotFound',
  });
});
