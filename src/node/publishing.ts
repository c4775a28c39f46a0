import type { Run } from '../base/exec.ts';
import { Formatter } from '../storage/filesystem.ts';
import { FilesystemGrower } from '../storage/filesystem-growth.ts';
import { Mounts } from '../storage/mounts.ts';
import type { VolumeId } from '../storage/pool.ts';
import type { Pools } from '../storage/pools.ts';
import { blkid } from '../storage/probe.ts';
import { superblockReader } from '../storage/superblock.ts';
import type { EphemeralVolumes } from './ephemeral-volumes.ts';
import { PreparedFilesystems } from './prepared-filesystems.ts';
import { PublishedVolumes } from './published-volumes.ts';

/** Volumes published on this machine: with its commands, and the mounts that this process sees. */
export function publishing({
  pools,
  ephemeral,
  run,
  onPublished,
}: {
  readonly pools: Pick<Pools, 'all' | 'unavailable'>;
  readonly ephemeral: EphemeralVolumes;
  readonly run: Run;
  readonly onPublished?: (id: VolumeId) => void;
}): PublishedVolumes {
  const superblock = superblockReader();
  const mounts = new Mounts({ run });
  const grower = new FilesystemGrower({ run, superblock });
  const formatter = new Formatter({ run, probe: blkid(run), superblock });
  const filesystems = new PreparedFilesystems({ formatter, grower, mounts });
  return new PublishedVolumes({ pools, filesystems, grower, mounts, ephemeral, onPublished });
}
