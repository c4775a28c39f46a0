import assert from 'node:assert/strict';
import { test } from 'node:test';
import { create } from '@bufbuild/protobuf';
import { CreateVolumeRequestSchema } from './gen/csi/v1/csi_pb.ts';
import { loggable } from './loggable.ts';

test('a request is logged without its secrets', () => {
  const request = create(CreateVolumeRequestSchema, {
    name: 'pvc-1',
    capacityRange: { requiredBytes: 1n },
    secrets: { passphrase: 'open sesame' },
    volumeCapabilities: [{ accessMode: { mode: 1 }, accessType: { case: 'mount', value: { fsType: 'xfs' } } }],
  });
  assert.deepEqual(loggable(CreateVolumeRequestSchema, request), {
    name: 'pvc-1',
    capacityRange: { requiredBytes: '1' },
    volumeCapabilities: [{ accessMode: { mode: 'SINGLE_NODE_WRITER' }, mount: { fsType: 'xfs' } }],
  });
  assert.deepEqual(request.secrets, { passphrase: 'open sesame' }, 'the request itself is not changed');
});
