import assert from 'node:assert/strict';
import { open } from 'node:fs/promises';
import type { TestContext } from 'node:test';
import type { ThinClass } from '../../src/engine/config/device-classes.ts';
import { deviceMapperName } from '../../src/engine/lvm/thin-device.ts';
import type { ServedPool } from '../../src/engine/pool.ts';
import { command, disks, volumeGroup } from '../../worlds/lvm/inside.ts';
import { Engine, thinClass } from './lvm-pools.ts';

export async function newThinPool(t: TestContext, settings: Partial<ThinClass> = {}, poolSize = '256m') {
  const vg = await volumeGroup(t, { disks: disks().slice(0, 1) });
  await command('lvcreate', '-y', '--type', 'thin-pool', '-L', poolSize, '--poolmetadatasize', '4m', '-n', 'pool', vg);
  const engine = new Engine(t);
  const deviceClass = thinClass(vg, settings);
  const pool = await engine.open(deviceClass);
  const restart = () => new Engine(t).open(deviceClass);
  return { vg, engine, pool, restart };
}

/** LVM's own report, to compare the cache with. */
export async function actualState(pool: ServedPool, restart: () => Promise<ServedPool>) {
  const fresh = await restart();
  assert.deepEqual(byId(pool), byId(fresh));
  assert.equal(pool.capacity().freeBytes, fresh.capacity().freeBytes);
}

export function byId(pool: ServedPool) {
  return pool.list().toSorted((a, b) => a.id.localeCompare(b.id));
}

export const sizeOf = async (path: string) => BigInt(await command('blockdev', '--getsize64', path));

export async function write(path: string, text: string, position = 0) {
  await using device = await open(path, 'r+');
  await device.write(text, position);
  await device.sync();
}

export async function read(path: string, length: number, position = 0) {
  await using device = await open(path, 'r');
  return (await device.read(Buffer.alloc(length), 0, length, position)).buffer.toString();
}

/** As power loss leaves it: in the metadata of the volume group, but unknown to the pool. */
export async function becomeGhost(vg: string, id: string) {
  const thinId = await command('lvs', '--noheadings', '-o', 'thin_id', `${vg}/${id}`);
  await command('lvchange', '-an', `${vg}/${id}`);
  await command('dmsetup', 'message', `${deviceMapperName(vg, 'pool')}-tpool`, '0', `delete ${thinId}`);
}
