import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import type { ThickClass } from '../../src/engine/config/device-classes.ts';
import type { ServedPool, Volume } from '../../src/engine/pool.ts';
import { disks, volumeGroup } from '../../worlds/lvm/inside.ts';
import { Engine, thickClass } from './lvm-pools.ts';

export interface Opened {
  readonly pool: ServedPool;
  readonly engine: Engine;
  /** The same volume group after a restart of the agent. */
  readonly restart: () => Promise<ServedPool>;
}

export async function openPool(t: TestContext, vg: string, settings: Partial<ThickClass> = {}): Promise<Opened> {
  const deviceClass = thickClass(vg, settings);
  const engine = new Engine(t, [
    { name: 'mirrored', options: ['--type', 'raid1', '--mirrors', '1', '--nosync'] },
    { name: 'wide', options: ['--stripes', '2'] },
  ]);
  const restart = () => new Engine(t).open(deviceClass);
  return { pool: await engine.open(deviceClass), engine, restart };
}

export async function onNewGroup(t: TestContext, settings: Partial<ThickClass> = {}, count = 1) {
  const vg = await volumeGroup(t, { disks: disks().slice(0, count) });
  return { vg, ...(await openPool(t, vg, settings)) };
}

/** LVM's own report, to compare the cache with. */
export async function actualState({ pool, restart }: Opened) {
  const fresh = await restart();
  assert.deepEqual(inOrder(pool.list()), inOrder(fresh.list()));
  assert.deepEqual(pool.capacity(), fresh.capacity());
}

/** LVM sorts by name, the cache by age. */
function inOrder(volumes: readonly Volume[]): Volume[] {
  const sorted = volumes.map((volume) => ({ ...volume, tags: [...volume.tags].sort() }));
  return sorted.sort((a, b) => a.id.localeCompare(b.id));
}
