import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { MessageInitShape } from '@bufbuild/protobuf';
import { healthy } from '../../engine/volume-health.ts';
import { ext4 } from '../../filesystem/ext4.ts';
import type { VolumeKeys } from '../../filesystem/volume-keys.ts';
import {
  VolumeCapability_AccessMode_Mode as Mode,
  Node,
  type NodePublishVolumeRequestSchema,
  NodeServiceCapability_RPC_Type as RpcType,
  VolumeUsage_Unit as Unit,
} from '../../rpc/gen/csi/v1/csi_pb.ts';
import { serving } from '../../rpc/testing/serving.ts';
import { nodeService } from './node-service.ts';
import type { Growth, NodeVolumes, Publication, Staging, VolumeStats } from './node-volumes.ts';

const timeoutMs = 120_000;
const gibi = 1024n ** 3n;
const settings = { mkfsOptions: [], rootMode: 0o2777, rootOwner: { uid: 0, gid: 0 } };

class RecordingVolumes implements NodeVolumes {
  readonly staged: Staging[] = [];
  readonly unstaged: [string, string][] = [];
  readonly published: Publication[] = [];
  readonly unpublished: [string, string][] = [];
  readonly grown: Growth[] = [];
  nextStats: VolumeStats = { usage: [], condition: healthy };

  async stage(staging: Staging): Promise<void> {
    this.staged.push(staging);
  }

  async unstage(volumeId: string, stagingPath: string): Promise<void> {
    this.unstaged.push([volumeId, stagingPath]);
  }

  async publish(publication: Publication): Promise<void> {
    this.published.push(publication);
  }

  async unpublish(volumeId: string, targetPath: string): Promise<void> {
    this.unpublished.push([volumeId, targetPath]);
  }

  async stats(): Promise<VolumeStats> {
    return this.nextStats;
  }

  async grow(growth: Growth): Promise<bigint> {
    this.grown.push(growth);
    return gibi;
  }
}

async function node(t: TestContext) {
  const volumes = new RecordingVolumes();
  return { volumes, calls: await serving(t, Node, nodeService({ nodeName: 'a', volumes })) };
}

const mounted = (mode: Mode, ...mountFlags: string[]) => ({
  accessMode: { mode },
  accessType: { case: 'mount' as const, value: { mountFlags } },
});

const volumeCapability = mounted(Mode.SINGLE_NODE_WRITER, 'noatime');
const request: MessageInitShape<typeof NodePublishVolumeRequestSchema> = {
  volumeId: 'v',
  targetPath: '/pods/1/mount',
  stagingTargetPath: '/staged',
  volumeCapability,
};
const plain = { isRequested: false, keys: undefined };
const publication: Publication = {
  volumeId: 'v',
  targetPath: '/pods/1/mount',
  stagingPath: '/staged',
  readOnly: false,
  exclusive: false,
  use: { kind: 'filesystem', filesystem: ext4, mountFlags: ['noatime'], settings },
  encryption: plain,
  ephemeral: undefined,
};

test('a volume is staged with ext4 unless another filesystem is named, and formatted as its class says', async (t) => {
  const { volumes, calls } = await node(t);
  const volumeContext = {
    'moorage.dev/mkfs-options': '-i 8192',
    'moorage.dev/root-mode': '0750',
    'moorage.dev/root-owner': '1000:2000',
  };
  const staging = { volumeId: 'v', stagingTargetPath: '/staged', volumeCapability, volumeContext };
  await calls.nodeStageVolume(staging, { timeoutMs });
  const created = { mkfsOptions: ['-i', '8192'], rootMode: 0o750, rootOwner: { uid: 1000, gid: 2000 } };
  assert.deepEqual(volumes.staged, [
    { volumeId: 'v', stagingPath: '/staged', use: { ...publication.use, settings: created }, encryption: plain },
  ]);
  await calls.nodeUnstageVolume({ volumeId: 'v', stagingTargetPath: '/staged' }, { timeoutMs });
  assert.deepEqual(volumes.unstaged, [['v', '/staged']]);
});

test('a volume is published from where it was staged, or directly if it was not', async (t) => {
  const { volumes, calls } = await node(t);
  await calls.nodePublishVolume(request, { timeoutMs });
  await calls.nodePublishVolume({ ...request, stagingTargetPath: '' }, { timeoutMs });
  assert.deepEqual(volumes.published, [publication, { ...publication, stagingPath: undefined }]);
});

test('a volume is published according to its access mode', async (t) => {
  const { volumes, calls } = await node(t);
  const modes = [
    [Mode.SINGLE_NODE_MULTI_WRITER, { readOnly: false, exclusive: false }],
    [Mode.SINGLE_NODE_SINGLE_WRITER, { readOnly: false, exclusive: true }],
    [Mode.SINGLE_NODE_READER_ONLY, { readOnly: true, exclusive: false }],
  ] as const;
  for (const [mode, wanted] of modes) {
    await calls.nodePublishVolume({ ...request, volumeCapability: mounted(mode) }, { timeoutMs });
    const { readOnly, exclusive } = volumes.published.at(-1) ?? {};
    assert.deepEqual({ readOnly, exclusive }, wanted);
  }
  for (const mode of [Mode.MULTI_NODE_MULTI_WRITER, Mode.MULTI_NODE_READER_ONLY, Mode.UNKNOWN]) {
    await assert.rejects(calls.nodePublishVolume({ ...request, volumeCapability: mounted(mode) }, { timeoutMs }), {
      code: 'InvalidArgument',
      message: /^volume_capability.access_mode \w+ is not supported/,
    });
  }
});

test('the pod information of the kubelet is passed on', async (t) => {
  const { volumes, calls } = await node(t);
  const volumeContext = {
    'csi.storage.k8s.io/ephemeral': 'true',
    'csi.storage.k8s.io/pod.uid': 'p',
    'topolvm.cybozu.com/size': '3',
    'topolvm.io/device-class': 'fast',
  };
  await calls.nodePublishVolume({ ...request, volumeContext }, { timeoutMs });
  const { ephemeral } = volumes.published[0] ?? {};
  assert.deepEqual(ephemeral, { sizeBytes: 3n * gibi, deviceClass: 'fast', podUid: 'p', forClassesOnly: [] });
});

test('a pod chooses neither the mkfs options nor the owner of its inline volume', async (t) => {
  const { volumes, calls } = await node(t);
  const settings = {
    'moorage.dev/mkfs-options': '-N 4000000000',
    'moorage.dev/root-mode': '1777',
    'moorage.dev/root-owner': '1000:1000',
    'moorage.dev/encryption': 'luks2',
  };
  const volumeContext = { 'csi.storage.k8s.io/ephemeral': 'true', ...settings };
  await calls.nodePublishVolume({ ...request, volumeContext }, { timeoutMs });
  await calls.nodePublishVolume({ ...request, volumeContext: settings }, { timeoutMs });
  const [inline, claim] = volumes.published;
  const settingsOf = ({ use }: Publication) => (use.kind === 'filesystem' ? use.settings : undefined);
  assert.deepEqual(inline && settingsOf(inline), { mkfsOptions: [], rootMode: 0o1777, rootOwner: { uid: 0, gid: 0 } });
  const forClassesOnly = ['moorage.dev/mkfs-options', 'moorage.dev/root-owner', 'moorage.dev/encryption'];
  assert.deepEqual(inline?.ephemeral?.forClassesOnly, forClassesOnly);
  assert.deepEqual([inline?.encryption?.isRequested, claim?.encryption?.isRequested], [false, true]);
  assert.deepEqual(claim && settingsOf(claim), {
    mkfsOptions: ['-N', '4000000000'],
    rootMode: 0o1777,
    rootOwner: { uid: 1000, gid: 1000 },
  });
});

test('the keys in the secrets of a call are there during the call, and overwritten afterwards', async (t) => {
  const { volumes, calls } = await node(t);
  const secrets = { passphrase: 'new', 'previous-passphrase': 'old' };
  const during: string[] = [];
  const given: VolumeKeys[] = [];
  const look = (keys: VolumeKeys | undefined) => {
    if (!keys) return;
    given.push(keys);
    during.push(Buffer.from(keys.current).toString(), Buffer.from(keys.previous ?? []).toString());
  };
  volumes.stage = async ({ encryption }) => {
    assert.equal(encryption?.isRequested, true);
    look(encryption.keys);
  };
  volumes.publish = async ({ encryption }) => look(encryption?.keys);
  volumes.grow = async ({ keys }) => {
    look(keys);
    throw new Error('failed');
  };
  const volumeContext = { 'moorage.dev/encryption': 'luks2' };
  const staging = { volumeId: 'v', stagingTargetPath: '/staged', volumeCapability, volumeContext, secrets };
  await calls.nodeStageVolume(staging, { timeoutMs });
  await calls.nodePublishVolume({ ...request, volumeContext, secrets }, { timeoutMs });
  await assert.rejects(calls.nodeExpandVolume({ volumeId: 'v', volumePath: '/p', secrets }, { timeoutMs }));
  assert.deepEqual(during, ['new', 'old', 'new', 'old', 'new', 'old']);
  for (const { current, previous } of given) {
    assert.deepEqual([Buffer.from(current), Buffer.from(previous ?? [])], [Buffer.alloc(3), Buffer.alloc(3)]);
  }
});

test('a request without a mandatory field is refused with the name of the field', async (t) => {
  const { volumes, calls } = await node(t);
  const { volumeCapability: _, ...withoutCapability } = request;
  const missing = (field: string) => ({
    code: 'InvalidArgument',
    message: `${field} is missing from the request; set it`,
  });
  const staging = { volumeId: 'v', stagingTargetPath: '/staged', volumeCapability };
  for (const [call, field] of [
    [calls.nodePublishVolume({ ...request, volumeId: '' }, { timeoutMs }), 'volume_id'],
    [calls.nodePublishVolume({ ...request, targetPath: '' }, { timeoutMs }), 'target_path'],
    [calls.nodePublishVolume(withoutCapability, { timeoutMs }), 'volume_capability'],
    [calls.nodeUnpublishVolume({ volumeId: 'v' }, { timeoutMs }), 'target_path'],
    [calls.nodeUnpublishVolume({ targetPath: '/pods/1/mount' }, { timeoutMs }), 'volume_id'],
    [calls.nodeStageVolume({ ...staging, volumeId: '' }, { timeoutMs }), 'volume_id'],
    [calls.nodeStageVolume({ ...staging, stagingTargetPath: '' }, { timeoutMs }), 'staging_target_path'],
    [calls.nodeUnstageVolume({ volumeId: 'v' }, { timeoutMs }), 'staging_target_path'],
    [calls.nodeGetVolumeStats({ volumePath: '/p' }, { timeoutMs }), 'volume_id'],
    [calls.nodeGetVolumeStats({ volumeId: 'v' }, { timeoutMs }), 'volume_path'],
    [calls.nodeExpandVolume({ volumePath: '/p' }, { timeoutMs }), 'volume_id'],
    [calls.nodeExpandVolume({ volumeId: 'v' }, { timeoutMs }), 'volume_path'],
  ] as const) {
    await assert.rejects(call, missing(field));
  }
  assert.deepEqual([volumes.published, volumes.staged, volumes.grown], [[], [], []]);
});

test('a path that is not absolute is refused with the name of its field', async (t) => {
  const { volumes, calls } = await node(t);
  const staging = { volumeId: 'v', stagingTargetPath: 'staged', volumeCapability };
  for (const [call, path] of [
    [calls.nodePublishVolume({ ...request, targetPath: 'pods/1' }, { timeoutMs }), 'target_path pods/1'],
    [calls.nodePublishVolume({ ...request, stagingTargetPath: './s' }, { timeoutMs }), 'staging_target_path ./s'],
    [calls.nodeStageVolume(staging, { timeoutMs }), 'staging_target_path staged'],
  ] as const) {
    const message = `${path} is not an absolute path; start it with /`;
    await assert.rejects(call, { code: 'InvalidArgument', message });
  }
  assert.deepEqual([volumes.published, volumes.staged], [[], []]);
});

test('read-only and the mount flag rw contradict each other', async (t) => {
  const { calls } = await node(t);
  for (const flag of ['rw', 'noatime,rw']) {
    const contradiction = { ...request, readonly: true, volumeCapability: mounted(Mode.SINGLE_NODE_WRITER, flag) };
    await assert.rejects(calls.nodePublishVolume(contradiction, { timeoutMs }), { code: 'InvalidArgument' });
  }
});

test('a volume is unpublished from its target', async (t) => {
  const { volumes, calls } = await node(t);
  await calls.nodeUnpublishVolume({ volumeId: 'v', targetPath: '/pods/1/mount' }, { timeoutMs });
  assert.deepEqual(volumes.unpublished, [['v', '/pods/1/mount']]);
});

test('stats report bytes, inodes and the condition; for a raw device only its size', async (t) => {
  const { volumes, calls } = await node(t);
  const stats = async () => {
    const { usage, volumeCondition } = await calls.nodeGetVolumeStats(
      { volumeId: 'v', volumePath: '/p' },
      { timeoutMs },
    );
    const { abnormal, message } = volumeCondition ?? {};
    return [usage.map(({ unit, total, used, available }) => [unit, total, used, available]), abnormal, message];
  };
  volumes.nextStats = {
    usage: [
      { unit: 'bytes', total: 10n, filling: { used: 4n, available: 5n } },
      { unit: 'inodes', total: 7n, filling: { used: 3n, available: 4n } },
    ],
    condition: healthy,
  };
  const both = [
    [Unit.BYTES, 10n, 4n, 5n],
    [Unit.INODES, 7n, 3n, 4n],
  ];
  assert.deepEqual(await stats(), [both, false, healthy.message]);
  volumes.nextStats = { usage: [{ unit: 'bytes', total: 10n }], condition: { isAbnormal: true, message: 'broken' } };
  assert.deepEqual(await stats(), [[[Unit.BYTES, 10n, 0n, 0n]], true, 'broken']);
});

test('NodeExpandVolume answers the size of the volume', async (t) => {
  const { volumes, calls } = await node(t);
  const growth = { volumeId: 'v', volumePath: '/p' };
  const { capacityBytes } = await calls.nodeExpandVolume(growth, { timeoutMs });
  assert.equal(capacityBytes, gibi);
  const block = { accessType: { case: 'block' as const, value: {} } };
  const staged = { ...growth, stagingTargetPath: '/staged' };
  await calls.nodeExpandVolume({ ...staged, volumeCapability: block }, { timeoutMs });
  await calls.nodeExpandVolume({ ...staged, volumeCapability }, { timeoutMs });
  assert.deepEqual(volumes.grown, [
    { ...growth, stagingPath: undefined, isBlock: undefined, keys: undefined },
    { ...growth, stagingPath: '/staged', isBlock: true, keys: undefined },
    { ...growth, stagingPath: '/staged', isBlock: false, keys: undefined },
  ]);
});

test('the node reports its capabilities, its name and its topology', async (t) => {
  const { calls } = await node(t);
  const { capabilities } = await calls.nodeGetCapabilities({}, { timeoutMs });
  assert.deepEqual(
    capabilities.map(({ type }) => type.value?.type),
    [
      RpcType.STAGE_UNSTAGE_VOLUME,
      RpcType.GET_VOLUME_STATS,
      RpcType.EXPAND_VOLUME,
      RpcType.VOLUME_CONDITION,
      RpcType.SINGLE_NODE_MULTI_WRITER,
    ],
  );
  const answer = await calls.nodeGetInfo({}, { timeoutMs });
  assert.equal(answer.nodeId, 'a');
  assert.deepEqual(answer.accessibleTopology?.segments, { 'topology.topolvm.io/node': 'a' });
});
