import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { MessageInitShape } from '@bufbuild/protobuf';
import { create } from '@bufbuild/protobuf';
import { MoorageError } from '../base/errors.ts';
import { silentLog } from '../base/testing/silent-log.ts';
import type { NewSnapshot } from '../engine/pool.ts';
import {
  GetLVListResponseSchema,
  type LogicalVolumeSchema,
  RemoveLVResponseSchema,
  ResizeLVResponseSchema,
} from '../rpc/gen/lvmd/lvmd_pb.ts';
import { type Lvmd, RemotePool } from './remote-pool.ts';

const { signal } = new AbortController();
const wanted: NewSnapshot = { id: 's', tags: ['mine'], sizeBytes: 2048n, access: 'ro' };
type Listed = MessageInitShape<typeof LogicalVolumeSchema>;
const whole = { name: 's', sizeBytes: 2048n, path: '/dev/vg/s', tags: ['mine'], attr: 'Vri-a-tz-k' };

class LvmdFailed extends MoorageError {
  readonly code = 'Internal';
}

class Unexpected extends Error {
  constructor() {
    super('not called here');
  }
}

/** An lvmd that creates each snapshot as configured, and then fails. */
function start(volumes: Listed[], left?: Listed) {
  const refuse = () => Promise.reject(new Unexpected());
  const lvmd: Lvmd = {
    volumes: {
      createLV: refuse,
      resizeLV: async () => create(ResizeLVResponseSchema, {}),
      async removeLV({ name }) {
        volumes.splice(
          volumes.findIndex((volume) => volume.name === name),
          1,
        );
        return create(RemoveLVResponseSchema, {});
      },
      async createLVSnapshot() {
        if (left) volumes.push(left);
        throw new LvmdFailed('lvresize failed');
      },
    },
    groups: {
      getLVList: async () => create(GetLVListResponseSchema, { volumes: [...volumes] }),
      getFreeBytes: refuse,
      watch: () => {
        throw new Unexpected();
      },
    },
    engine: new Proxy({} as Lvmd['engine'], { get: () => refuse }),
  };
  return new RemotePool('thin', lvmd, silentLog);
}

for (const [how, half] of [
  ['smaller', { ...whole, sizeBytes: 1024n }],
  ['writable', { ...whole, attr: 'Vwi-a-tz-k' }],
  ['inactive', { ...whole, attr: 'Vri---tz-k' }],
] as const) {
  test(`a snapshot that lvmd leaves ${how}, contrary to the request, is an error and is removed`, async () => {
    const volumes: Listed[] = [];
    const pool = start(volumes, half);
    await assert.rejects(pool.snapshot('data', wanted, signal), { message: 'lvresize failed' });
    assert.deepEqual(volumes, []);
    assert.equal(pool.get('s'), undefined);
  });

  test(`an existing snapshot that is ${how}, contrary to the request, is refused and kept`, async () => {
    const volumes: Listed[] = [half];
    const pool = start(volumes); // it does not know the snapshot yet
    await assert.rejects(pool.snapshot('data', wanted, signal), /snapshot s exists|volume s exists/);
    assert.equal(volumes.length, 1);
  });
}

test('a complete snapshot is returned even if lvmd reports an error', async () => {
  const pool = start([], whole);
  assert.equal((await pool.snapshot('data', wanted, signal)).id, 's');
  assert.equal((await pool.snapshot('data', wanted, signal)).id, 's');
});

test('a volume that was removed since the last update is not reported as created', async () => {
  const volumes: Listed[] = [{ ...whole, attr: '-wi-a-----' }];
  const pool = start(volumes);
  await pool.refresh(signal);
  volumes.pop();
  await assert.rejects(pool.create({ id: 's', sizeBytes: 1024n, tags: [] }, signal), Unexpected);
});

test('a foreign volume with the requested name is not returned', async () => {
  const pool = start([{ ...whole, tags: [], attr: '-wi-a-----' }]);
  await pool.refresh(signal);
  await assert.rejects(pool.create({ id: 's', sizeBytes: 1024n, tags: ['mine'] }, signal), { name: 'NotCreatedHere' });
});
