import { MoorageError } from '../base/errors.ts';
import { CommandFailed } from '../base/exec.ts';
import type { Mount } from '../base/mountinfo.ts';
import type { PreparedUse } from '../csi/node/node-volumes.ts';
import { type FilesystemUse, hasFlag } from '../csi/volume-use.ts';
import { VolumeNotFound } from '../engine/errors.ts';
import type { Pool, Volume, VolumeId } from '../engine/pool.ts';
import { type Filesystem, FilesystemMismatch, type Formatter } from '../filesystem/filesystem.ts';
import type { FilesystemGrower } from '../filesystem/growth.ts';
import { makeMountDirectory } from '../filesystem/mount-point.ts';
import type { Mounts } from '../filesystem/mounts.ts';
import { handOverRoot } from '../filesystem/root.ts';

interface Collaborators {
  readonly formatter: Pick<Formatter, 'ensure'>;
  readonly grower: Pick<FilesystemGrower, 'grow'>;
  readonly mounts: Pick<Mounts, 'holding' | 'mount'>;
}

type PreparedFilesystem = Extract<PreparedUse, FilesystemUse>;

/** Prepares filesystems on volumes: formats them once, mounts them, sets mode and owner, and grows them to their devices. */
export class PreparedFilesystems {
  readonly #formatter: Collaborators['formatter'];
  readonly #grower: Collaborators['grower'];
  readonly #mounts: Collaborators['mounts'];

  constructor({ formatter, grower, mounts }: Collaborators) {
    this.#formatter = formatter;
    this.#grower = grower;
    this.#mounts = mounts;
  }

  /** Whether the volume is mounted there; throws if it has another filesystem than requested. */
  async isAt(path: string, volume: Volume, { filesystem }: FilesystemUse): Promise<boolean> {
    return (await this.#presentAt(path, volume, filesystem)) !== undefined;
  }

  /** For a filesystem that is already mounted there, only finishes what a crash may have interrupted. */
  async mountAt(
    path: string,
    pool: Pool,
    id: VolumeId,
    { filesystem, mountFlags, settings }: PreparedFilesystem,
    signal: AbortSignal,
  ): Promise<void> {
    const volume = pool.get(id);
    if (!volume) throw new VolumeNotFound(pool.name, id);
    const present = await this.#presentAt(path, volume, filesystem);
    const options = present?.options ?? mountOptions(filesystem, mountFlags, volume);
    if (!present) {
      await this.#formatter.ensure(pool, id, filesystem, signal, settings.mkfsOptions);
      await makeMountDirectory(path);
      await this.#mounts
        .mount({ source: volume.devicePath, target: path, filesystem, options }, signal)
        .catch((error: unknown) => {
          throw error instanceof CommandFailed ? new NotMountable(id, filesystem, mountFlags, error) : error;
        });
    }
    if (hasFlag(options, 'ro')) return;
    await handOverRoot(path, settings.rootMode, settings.rootOwner);
    await this.#grower.grow(volume, filesystem, path, signal);
  }

  async #presentAt(path: string, { id, devicePath }: Volume, wanted: Filesystem): Promise<Mount | undefined> {
    const present = await this.#mounts.holding(path, devicePath);
    if (present && present.filesystem !== wanted) throw new FilesystemMismatch(id, wanted, present.filesystem);
    return present;
  }
}

/** Commands that check a filesystem without changing it. */
const check: Readonly<Record<Filesystem, string>> = {
  ext4: 'e2fsck -n',
  xfs: 'xfs_repair -n',
  btrfs: 'btrfs check --readonly',
};

export class NotMountable extends MoorageError {
  readonly code = 'Internal';

  constructor(id: VolumeId, filesystem: Filesystem, mountFlags: readonly string[], failure: CommandFailed) {
    const flags =
      mountFlags.length > 0
        ? `correct mountOptions (${mountFlags.join(', ')}) of the StorageClass and the PersistentVolume, or `
        : '';
    super(
      `volume ${id} cannot be mounted: ${failure.message}; ${flags}check the filesystem on the node with ${check[filesystem]}`,
      { cause: failure },
    );
  }
}

function mountOptions(filesystem: Filesystem, flags: readonly string[], { readOnly }: Volume): readonly string[] {
  // A copy has the UUID of its source, and xfs refuses to mount both without nouuid.
  const own = filesystem === 'xfs' ? ['nouuid'] : [];
  return [...flags, ...own, ...(readOnly ? ['ro', withoutRecovery[filesystem]] : [])];
}

/** A copy of a filesystem in use would replay its journal at mount, which a read-only device does not allow. */
const withoutRecovery: Readonly<Record<Filesystem, string>> = {
  ext4: 'noload',
  xfs: 'norecovery',
  btrfs: 'rescue=nologreplay',
};
