import { stat, statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import { deviceSizeBytes } from '../base/device-number.ts';
import { MoorageError } from '../base/errors.ts';
import type { Usage, VolumeStats } from '../csi/node/node-volumes.ts';
import { isEncrypted } from '../engine/names-and-tags.ts';
import type { Pool, VolumeId } from '../engine/pool.ts';
import { healthOf, type VolumeHealth } from '../engine/volume-health.ts';

/** Usage and health of the volume at the path; `pool` is the one that has it, if any. */
export async function volumeStats(id: VolumeId, path: string, pool: Pool | undefined): Promise<VolumeStats> {
  const condition = conditionOf(id, pool);
  if ((await kindOfPath(id, path)) === 'device') {
    const volume = pool?.get(id);
    // The decrypted device is smaller than its volume.
    const sizeBytes = volume && isEncrypted(volume) ? await deviceSizeBytes(path) : volume?.sizeBytes;
    return { usage: sizeBytes === undefined ? [] : [{ unit: 'bytes', total: sizeBytes }], condition };
  }
  return { usage: await usageOf(path), condition };
}

/** What is at the path of the volume; throws if it is not there. */
export async function kindOfPath(id: VolumeId, path: string): Promise<'device' | 'filesystem'> {
  try {
    const [at, above] = await Promise.all([stat(path), stat(dirname(path))]);
    if (at.isBlockDevice()) return 'device';
    // A directory without a mount is on the node's own disk, whose usage must not be reported.
    if (at.isDirectory() && at.dev !== above.dev) return 'filesystem';
  } catch (error) {
    if (!isMissing(error)) throw error;
  }
  throw new NotAtPath(id, path);
}

async function usageOf(path: string): Promise<Usage[]> {
  const { bsize, blocks, bfree, bavail, files, ffree } = await statfs(path, { bigint: true });
  const bytes: Usage = {
    unit: 'bytes',
    total: blocks * bsize,
    filling: { used: (blocks - bfree) * bsize, available: bavail * bsize },
  };
  if (files === 0n) return [bytes]; // btrfs allocates inodes on demand and reports none
  return [bytes, { unit: 'inodes', total: files, filling: { used: files - ffree, available: ffree } }];
}

function conditionOf(id: VolumeId, pool: Pool | undefined): VolumeHealth {
  const volume = pool?.get(id);
  if (!pool || !volume) {
    return {
      isAbnormal: true,
      message: `no device class of this node has volume ${id}; look at lvs and the kernel log`,
    };
  }
  const health = healthOf(volume.attr);
  const { thin } = pool.capacity();
  if (health.isAbnormal || !thin || (thin.dataPercent < 100 && thin.metadataPercent < 100)) return health;
  const full = thin.dataPercent < 100 ? 'metadata' : 'data';
  return {
    isAbnormal: true,
    message: `the thin pool of ${pool.name} has no space left for ${full}; extend it with lvextend`,
  };
}

function isMissing(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code === 'ENOENT' || code === 'ENOTDIR';
}

export class NotAtPath extends MoorageError {
  readonly code = 'NotFound';

  constructor(id: VolumeId, path: string) {
    super(`volume ${id} is not at ${path}; publish or stage it there first`);
  }
}
