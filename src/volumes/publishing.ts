import type { Run } from '../base/exec.ts';
import type { VolumeId } from '../engine/pool.ts';
import type { Pools } from '../engine/pools.ts';
import { Formatter } from '../filesystem/format.ts';
import { FilesystemGrower } from '../filesystem/growth.ts';
import { Mounts } from '../filesystem/mounts.ts';
import { blkid, superblockReader } from '../filesystem/probe.ts';
import type { EphemeralVolumes } from './ephemeral-volumes.ts';
import { PreparedFilesystems } from './prepared-filesystems.ts';
import { PublishedVolumes } from './published-volumes.ts';

/** Wires the parts that publish volumes on this machine. */
export function publishing({
  pools,
  ephemeral,
  run,
  ...listeners
}: {
  readonly pools: Pick<Pools, 'all' | 'unavailable'>;
  readonly ephemeral: EphemeralVolumes;
  readonly run: Run;
  readonly onPublished?: (id: VolumeId) => void;
  readonly onPrepared?: (id: VolumeId, error?: unknown) => void;
}): PublishedVolumes {
  const superblock = superblockReader();
  const mounts = new Mounts({ run });
  const grower = new FilesystemGrower({ run, superblock });
  const formatter = new Formatter({ run, probe: blkid(run), superblock });
  const filesystems = new PreparedFilesystems({ formatter, grower, mounts });
  return new PublishedVolumes({ pools, filesystems, grower, mounts, ephemeral, ...listeners });
}
