import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fromBinary } from '@bufbuild/protobuf';
import { silentLog } from '../base/testing/silent-log.ts';
import type { Volume } from '../engine/pool.ts';
import { GetLVListResponseSchema } from '../rpc/gen/lvmd/lvmd_pb.ts';
import { encode } from '../rpc/service-definition.ts';
import { DeviceNumbers } from './device-numbers.ts';
import { VolumeMessages } from './volume-message.ts';

const volume = (id: string): Volume => ({
  id,
  sizeBytes: 3n * 1024n ** 3n,
  devicePath: `/dev/group/${id}`,
  tags: ['a', 'b'],
  readOnly: false,
  attr: '-wi-a-----',
});

test('a list has each volume in its current state, also after its device was re-created', async () => {
  let minor = 7n;
  const watchers: ((name: string) => void)[] = [];
  const messages = new VolumeMessages(
    new DeviceNumbers(silentLog, {
      stat: () => ({ ino: 1n, rdev: (253n << 8n) | minor, isBlockDevice: () => true }),
      watch: (_, onChange) => {
        watchers.push(onChange);
        return () => undefined;
      },
    }),
  );
  const volumes = [volume('one'), volume('two')];
  const listed = async () =>
    fromBinary(GetLVListResponseSchema, encode(GetLVListResponseSchema, await messages.list(volumes))).volumes.map(
      ({ name, sizeGb, devMajor, devMinor, tags }) => [name, sizeGb, devMajor, devMinor, ...tags],
    );
  const expected = () => ['one', 'two'].map((name) => [name, 3n, 253, Number(minor), 'a', 'b']);
  assert.deepEqual(await listed(), expected());
  minor = 8n;
  for (const onChange of watchers) for (const { id } of volumes) onChange(id);
  assert.deepEqual(await listed(), expected());
  volumes[1] = { ...volume('two'), tags: [] };
  assert.deepEqual((await listed())[1], ['two', 3n, 253, 8]);
  volumes.push(volume('three'));
  assert.deepEqual(
    (await listed()).map(([name]) => name),
    ['one', 'two', 'three'],
  );
  volumes.splice(1);
  assert.deepEqual(await listed(), expected().slice(0, 1));
  volumes.length = 0;
  assert.deepEqual(await listed(), []);
});
