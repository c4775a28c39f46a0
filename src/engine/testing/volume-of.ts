import assert from 'node:assert/strict';
import type { Pool, Volume, VolumeId } from '../pool.ts';

/** A volume that the test has created, as it is now. */
export function volumeOf(pool: Pick<Pool, 'get'>, id: VolumeId): Volume {
  return pool.get(id) ?? assert.fail(`the pool has no volume ${id}`);
}
