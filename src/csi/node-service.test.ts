import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { MessageInitShape } from '@bufbuild/protobuf';
import {
  VolumeCapability_AccessMode_Mode as Mode,
  Node,
  type NodePublishVolumeRequestSchema,
} from '../rpc/gen/csi/v1/csi_pb.ts';
import { serving } from '../rpc/serving.ts';
import { nodeService } from './node-service.ts';
import type { NodeVolumes, Publication } from './node-volumes.ts';

const timeoutMs = 10_000;
const settings = { mkfsOptions: [], rootMode: 0o2777, rootOwner: { uid: 0, gid: 0 } };

class RecordingVolumes implements Pick<NodeVolumes, 'publish' | 'unpublish'> {
  readonly published: Publication[] = [];
  readonly unpublished: [string, string][] = [];

  async publish(publication: Publication): Promise<void> {
    this.published.push(publication);
  }

  async unpublish(volumeId: string, targetPath: string): Promise<void> {
    this.unpublished.push([volumeId, targetPath]);
  }
}

async function node(t: TestContext) {
  const volumes = new RecordingVolumes();
  return { volumes, calls: await serving(t, Node, nodeService({ nodeName: 'a', volumes })) };
}

const request: MessageInitShape<typeof NodePublishVolumeRequestSchema> = {
  volumeId: 'v',
  targetPath: '/pods/1/mount',
  volumeCapability: {
    accessMode: { mode: Mode.SINGLE_NODE_WRITER },
    accessType: { case: 'mount', value: { mountFlags: ['noatime'] } },
  },
};

test('a volume is published with ext4 unless another filesystem is named', async (t) => {
  const { volumes, calls } = await node(t);
  await calls.nodePublishVolume(request, { timeoutMs });
  assert.deepEqual(volumes.published, [
    {
      volumeId: 'v',
      targetPath: '/pods/1/mount',
      stagingPath: undefined,
      readOnly: false,
      exclusive: false,
      use: { kind: 'filesystem', filesystem: 'ext4', mountFlags: ['noatime'], settings },
      ephemeral: undefined,
      podUid: undefined,
    },
  ]);
});

test('a request without its fields is refused by name', async (t) => {
  const { volumes, calls } = await node(t);
  const { volumeCapability: _, ...withoutCapability } = request;
  for (const [wrong, field] of [
    [{ ...request, volumeId: '' }, 'volume_id'],
    [{ ...request, targetPath: '' }, 'target_path'],
    [withoutCapability, 'volume_capability'],
  ] as const) {
    await assert.rejects(calls.nodePublishVolume(wrong, { timeoutMs }), {
      code: 'InvalidArgument',
      message: `${field} is missing from the request; set it`,
    });
  }
  await assert.rejects(calls.nodeUnpublishVolume({ volumeId: 'v' }, { timeoutMs }), { message: /^target_path/ });
  assert.deepEqual(volumes.published, []);
});

test('read-only and the mount flag rw contradict each other', async (t) => {
  const { calls } = await node(t);
  const volumeCapability = {
    accessMode: { mode: Mode.SINGLE_NODE_WRITER },
    accessType: { case: 'mount' as const, value: { mountFlags: ['rw'] } },
  };
  await assert.rejects(calls.nodePublishVolume({ ...request, readonly: true, volumeCapability }, { timeoutMs }), {
    code: 'InvalidArgument',
  });
});

test('a volume is unpublished from its target', async (t) => {
  const { volumes, calls } = await node(t);
  await calls.nodeUnpublishVolume({ volumeId: 'v', targetPath: '/pods/1/mount' }, { timeoutMs });
  assert.deepEqual(volumes.unpublished, [['v', '/pods/1/mount']]);
});

test('the node says its name and its topology', async (t) => {
  const { calls } = await node(t);
  const answer = await calls.nodeGetInfo({}, { timeoutMs });
  assert.equal(answer.nodeId, 'a');
  assert.deepEqual(answer.accessibleTopology?.segments, { 'topology.topolvm.io/node': 'a' });
});
