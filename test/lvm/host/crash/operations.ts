import assert from 'node:assert/strict';
import { open } from 'node:fs/promises';
import type { Pool, Volume, VolumeId } from '../../../../src/engine/pool.ts';
import type { Operation } from './plan.ts';

const { signal } = new AbortController();
const mebibyte = 1024n ** 2n;
const sizeBytes = 16n * mebibyte;
const grownBytes = 32n * mebibyte;
const erasedBytes = 48n * mebibyte;
const blockBytes = 4096;
/** Must never be found after an erasure. */
export const secret = 'a secret that somebody stored here';

/** The promises about one operation, whenever the power is cut. */
interface Promised {
  prepare(pool: Pool, id: VolumeId): Promise<void>;
  act(pool: Pool, id: VolumeId): Promise<void>;
  /** Throws if a promise is broken; leaves nothing behind. */
  verify(pool: Pool, id: VolumeId, acknowledged: boolean): Promise<void>;
}

export const operations: Record<Operation, Promised> = {
  create: {
    async prepare() {},
    act: async (pool, id) => void (await create(pool, id)),
    async verify(pool, id, acknowledged) {
      if (acknowledged) assert.deepEqual(pool.get(id)?.tags.includes('crash'), true, `${id} is there, with its tags`);
      const volume = await create(pool, id); // a ghost would fail here at the latest: it can be neither read nor written
      await write(volume, 0n);
      await holds(volume, 0n);
      await pool.remove(id, signal);
    },
  },

  grow: {
    prepare: (pool, id) => withData(pool, id),
    act: async (pool, id) => void (await pool.grow(id, grownBytes, signal)),
    async verify(pool, id, acknowledged) {
      if (acknowledged) assert.ok(mustHave(pool, id).sizeBytes >= grownBytes, `${id} has its new size`);
      const volume = await pool.grow(id, grownBytes, signal);
      await holds(volume, 0n);
      await write(volume, grownBytes - BigInt(blockBytes)); // the device has grown, not only LVM's metadata
      await holds(volume, grownBytes - BigInt(blockBytes));
      await pool.remove(id, signal);
    },
  },

  snapshot: {
    prepare: (pool, id) => withData(pool, id),
    act: async (pool, id) => void (await snapshot(pool, id)),
    async verify(pool, id, acknowledged) {
      await holds(mustHave(pool, id), 0n);
      if (acknowledged) await holds(mustHave(pool, snapshotOf(id)), 0n);
      await holds(await snapshot(pool, id), 0n);
      await pool.remove(snapshotOf(id), signal);
      await holds(mustHave(pool, id), 0n);
      await pool.remove(id, signal);
    },
  },

  restore: {
    async prepare(pool, id) {
      await withData(pool, id);
      await snapshot(pool, id);
    },
    act: async (pool, id) => void (await restore(pool, id)),
    async verify(pool, id, acknowledged) {
      await holds(mustHave(pool, snapshotOf(id)), 0n);
      if (acknowledged) await holds(mustHave(pool, restoredOf(id)), 0n);
      await holds(await restore(pool, id), 0n);
      for (const created of [snapshotOf(id), restoredOf(id), id]) await pool.remove(created, signal);
    },
  },

  remove: {
    prepare: (pool, id) => withData(pool, id),
    act: async (pool, id) => void (await pool.remove(id, signal)),
    async verify(pool, id, acknowledged) {
      const volume = pool.get(id);
      if (acknowledged) assert.equal(volume, undefined, `${id} is gone`);
      if (volume) await holds(volume, 0n); // a volume that was not removed is untouched
      await pool.remove(id, signal);
    },
  },

  erase: {
    async prepare(pool, id) {
      const volume = await create(pool, id, erasedBytes);
      for (let at = 0n; at < erasedBytes; at += mebibyte) await write(volume, at);
    },
    act: async (pool, id) => void (await pool.remove(id, signal)),
    async verify(pool, id, acknowledged) {
      const isErasing = pool.erasures().some((erasure) => erasure.id === id);
      if (acknowledged) assert.equal(isErasing || pool.get(id) !== undefined, false, `${id} is clean and gone`);
      const volume = pool.get(id);
      if (volume) for (let at = 0n; at < erasedBytes; at += mebibyte) await holds(volume, at); // the erasure had not begun
      await pool.remove(id, signal); // joins the erasure that is already running
    },
  },
};

function create(pool: Pool, id: VolumeId, bytes = sizeBytes): Promise<Volume> {
  return pool.create({ id, sizeBytes: bytes, tags: ['crash'] }, signal);
}

async function withData(pool: Pool, id: VolumeId): Promise<void> {
  await write(await create(pool, id), 0n);
}

function snapshot(pool: Pool, id: VolumeId): Promise<Volume> {
  return pool.snapshot(id, { id: snapshotOf(id), tags: ['crash'], access: 'ro' }, signal);
}

function snapshotOf(id: VolumeId): VolumeId {
  return `${id}-snapshot`;
}

function restore(pool: Pool, id: VolumeId): Promise<Volume> {
  return pool.snapshot(snapshotOf(id), { id: restoredOf(id), tags: ['crash'], access: 'rw' }, signal);
}

function restoredOf(id: VolumeId): VolumeId {
  return `${id}-restored`;
}

function mustHave(pool: Pool, id: VolumeId): Volume {
  const volume = pool.get(id);
  assert.ok(volume, `${id} is there`);
  return volume;
}

async function write({ devicePath }: Volume, at: bigint): Promise<void> {
  await using device = await open(devicePath, 'r+');
  await device.write(Buffer.alloc(blockBytes, secret), 0, blockBytes, Number(at));
  await device.datasync();
}

async function holds({ id, devicePath }: Volume, at: bigint): Promise<void> {
  await using device = await open(devicePath, 'r');
  const { buffer } = await device.read(Buffer.alloc(blockBytes), 0, blockBytes, Number(at));
  assert.ok(buffer.equals(Buffer.alloc(blockBytes, secret)), `${id} holds its data at ${at}`);
}
