import { MoorageError } from '../base/errors.ts';
import { CommandFailed } from '../base/exec.ts';
import type { Mount } from '../base/mountinfo.ts';
import type { PreparedUse } from '../csi/node/node-volumes.ts';
import { type FilesystemUse, hasFlag } from '../csi/volume-use.ts';
import type { Pool, Volume, VolumeId } from '../engine/pool.ts';
import type { Filesystem } from '../filesystem/filesystem.ts';
import { FilesystemMismatch, type Formatter } from '../filesystem/format.ts';
import type { FilesystemGrower } from '../filesystem/growth.ts';
import { createMountDirectory, type Mounts } from '../filesystem/mounts.ts';
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
    pool: Pick<Pool, 'addTags'>,
    volume: Volume,
    { filesystem, mountFlags, settings }: PreparedFilesystem,
    signal: AbortSignal,
  ): Promise<void> {
    const present = await this.#presentAt(path, volume, filesystem);
    const options = present?.options ?? mountOptions(filesystem, mountFlags, volume);
    if (!present) {
      await this.#formatter.ensure(pool, volume, filesystem, signal, settings.mkfsOptions);
      await createMountDirectory(path);
      await this.#mounts
        .mount({ source: volume.devicePath, target: path, filesystem: filesystem.name, options }, signal)
        .catch((error: unknown) => {
          throw error instanceof CommandFailed ? new NotMountable(volume.id, filesystem, mountFlags, error) : error;
        });
    }
    if (hasFlag(options, 'ro')) return;
    await handOverRoot(path, settings.rootMode, settings.rootOwner);
    await this.#grower.grow(volume, filesystem, path, signal);
  }

  async #presentAt(path: string, { id, devicePath }: Volume, wanted: Filesystem): Promise<Mount | undefined> {
    const present = await this.#mounts.holding(path, devicePath);
    if (present && present.filesystem !== wanted.name) {
      throw new FilesystemMismatch(id, wanted.name, present.filesystem);
    }
    return present;
  }
}

export class NotMountable extends MoorageError {
  readonly code = 'Internal';

  constructor(id: VolumeId, filesystem: Filesystem, mountFlags: readonly string[], failure: CommandFailed) {
    const flags = mountFlags.length > 0 ? `correct the mount options (${mountFlags.join(', ')}), or ` : '';
    super(
      `volume ${id} cannot be mounted: ${failure.message}; ${flags}check the filesystem on the node with ${filesystem.check}`,
      { cause: failure },
    );
  }
}

export function mountOptions(
  filesystem: Filesystem,
  flags: readonly string[],
  { readOnly }: Volume,
): readonly string[] {
  return [...flags, ...filesystem.mountOptions, ...(readOnly ? ['ro', filesystem.withoutRecovery] : [])];
}
