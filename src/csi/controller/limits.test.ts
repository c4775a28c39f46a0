import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { MessageInitShape } from '@bufbuild/protobuf';
import {
  type CreateVolumeRequestSchema,
  VolumeCapability_AccessMode_Mode as Mode,
} from '../../rpc/gen/csi/v1/csi_pb.ts';
import { servedController } from '../testing/in-memory-stores.ts';

const timeoutMs = 120_000;
const anywhere = {
  name: 'pvc-1',
  volumeCapabilities: [{ accessMode: { mode: Mode.SINGLE_NODE_WRITER }, accessType: { case: 'mount', value: {} } }],
} as const satisfies MessageInitShape<typeof CreateVolumeRequestSchema>;

test('IO limits are set at creation or later, and only on nodes that can enforce them', async (t) => {
  const { volumes, calls } = await servedController(t);
  const mutableParameters = { 'moorage.dev/read-bytes-per-second': '1Mi' };
  await calls.createVolume({ ...anywhere, mutableParameters }, { timeoutMs });
  assert.deepEqual(volumes.wanted[0]?.nodeNames, ['a'], 'b has more free space, but cannot limit IO');
  assert.deepEqual(volumes.limits.get('uid-1'), { readBytesPerSecond: 1024n ** 2n });

  await calls.controllerModifyVolume(
    { volumeId: 'uid-1', mutableParameters: { 'moorage.dev/write-operations-per-second': '7' } },
    { timeoutMs },
  );
  assert.deepEqual(volumes.limits.get('uid-1'), { writeOperationsPerSecond: 7n });

  const onB = { accessibilityRequirements: { requisite: [{ segments: { 'topology.topolvm.io/node': 'b' } }] } };
  const cannot = { code: 'FailedPrecondition', message: /^node b cannot limit the IO of a volume; use/ };
  await assert.rejects(calls.createVolume({ ...anywhere, ...onB, mutableParameters }, { timeoutMs }), cannot);
  await calls.createVolume({ ...anywhere, ...onB }, { timeoutMs });
  await assert.rejects(calls.controllerModifyVolume({ volumeId: 'uid-2', mutableParameters }, { timeoutMs }), cannot);
  await calls.controllerModifyVolume({ volumeId: 'uid-2' }, { timeoutMs });
  assert.deepEqual(volumes.limits.get('uid-2'), {}, 'a modification without limits is always possible');
});

test('a volume without limits is not created for a claim that names a VolumeAttributesClass', async (t) => {
  const { volumes, calls } = await servedController(t);
  const parameters = { 'csi.storage.k8s.io/pvc/namespace': 'shop', 'csi.storage.k8s.io/pvc/name': 'limited' };
  await assert.rejects(calls.createVolume({ ...anywhere, parameters }, { timeoutMs }), {
    code: 'FailedPrecondition',
    message:
      /^csi-provisioner did not send the parameters of VolumeAttributesClass bronze; IO limits need csi-provisioner 6/,
  });
  assert.deepEqual(volumes.wanted, []);

  const mutableParameters = { 'moorage.dev/read-bytes-per-second': '1Mi' };
  await calls.createVolume({ ...anywhere, parameters, mutableParameters }, { timeoutMs });
  assert.equal(volumes.wanted.length, 1);
});

test('ControllerModifyVolume requires an existing volume and known limits', async (t) => {
  const { calls } = await servedController(t);
  await calls.createVolume(anywhere, { timeoutMs });
  const mutableParameters = { speed: '1' };
  for (const [modification, code] of [
    [{}, 'InvalidArgument'],
    [{ volumeId: 'uid-9' }, 'NotFound'],
    [{ volumeId: 'uid-1', mutableParameters }, 'InvalidArgument'],
  ] as const) {
    await assert.rejects(calls.controllerModifyVolume(modification, { timeoutMs }), { code });
  }
});
