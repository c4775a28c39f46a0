import { createHash } from 'node:crypto';
import { MoorageError, messageOf } from '../base/errors.ts';
import { CommandFailed, type Run } from '../base/exec.ts';
import { adoptedTag, createdTag, filesystemTag, formattedAs, rawTag, showsUse } from '../engine/names-and-tags.ts';
import type { Pool, Volume, VolumeId } from '../engine/pool.ts';
import type { Filesystem, Superblock } from './filesystem.ts';
import type { Probe, ProbeDevice, ReadSuperblock } from './probe.ts';

/**
 * The only place that allows a format. It decides; the caller acts. A filesystem from our own interrupted mkfs has no
 * tag, the UUID that only we set, and a superblock of the wanted kind that is marked as unfinished.
 */
export function decideFormat(
  volume: Volume,
  probe: Probe,
  wanted: Filesystem,
  superblock?: Superblock,
): 'format' | 'format again' | 'mount' {
  if (probe.kind === 'unknown') throw new DeviceUnreadable(volume.id, probe.reason);
  if (probe.kind === 'found') {
    const isTagged = volume.tags.some(showsUse);
    const isOurs = probe.uuid === filesystemUuid(volume.id);
    // We have not formatted this volume yet, so an earlier volume left this at the same place on the disk.
    if (volume.tags.includes(createdTag) && !isTagged && !isOurs) {
      throw new FilesystemForeign(volume.id, probe.filesystem);
    }
    if (probe.filesystem === wanted.name) {
      return superblock?.isUnfinished && isOurs && !isTagged ? 'format again' : 'mount';
    }
    throw new FilesystemMismatch(volume.id, wanted.name, probe.filesystem);
  }
  // Empty, although we once formatted it: the disk lies or was swapped. Better no pod than a fresh, empty database.
  const before = formattedAs(volume);
  if (before) throw new FilesystemVanished(volume.id, before);
  if (volume.tags.includes(rawTag)) throw new UsedRaw(volume.id);
  if (volume.tags.includes(adoptedTag)) throw new AdoptedWithoutFilesystem(volume.id, wanted.name);
  return 'format';
}

/** The UUID is derived from the volume's id, so that we recognise the filesystems that we created. */
export function filesystemUuid(id: VolumeId): string {
  const bytes = createHash('sha256').update(id).digest().subarray(0, 16);
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x80, 6); // version 8: custom
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8);
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}

const timeoutMs = 120_000;

/** Ensures that a volume holds the requested filesystem, and never destroys another one. */
export class Formatter {
  readonly #run: Run;
  readonly #probe: ProbeDevice;
  readonly #superblock: ReadSuperblock;

  constructor(options: { readonly run: Run; readonly probe: ProbeDevice; readonly superblock: ReadSuperblock }) {
    this.#run = options.run;
    this.#probe = options.probe;
    this.#superblock = options.superblock;
  }

  /**
   * Afterwards the volume can be mounted as `wanted`. The tag is set after mkfs: a crash between the two leaves a
   * filesystem without a tag, which the next call recognises by its UUID and tags. The device and the tags are those of
   * `volume`, which may be the decrypted view of the pool's.
   */
  async ensure(
    pool: Pick<Pool, 'addTags'>,
    volume: Volume,
    wanted: Filesystem,
    signal: AbortSignal,
    mkfsOptions: readonly string[] = [],
  ): Promise<Volume> {
    const { id } = volume;
    if (await this.#isStillThere(volume, wanted, signal)) return volume;
    const probe = await this.#probe(volume.devicePath, signal);
    const mayBeHalfCreated = probe.kind === 'found' && !volume.tags.some(showsUse);
    const superblock = mayBeHalfCreated ? await this.#superblockOf(volume, wanted, signal) : undefined;
    if (superblock === 'busy') throw new SuperblockBusy(id);
    const decision = decideFormat(volume, probe, wanted, superblock);
    if (decision !== 'mount') {
      // Without the signal: half a filesystem helps nobody.
      const command = wanted.mkfs({
        devicePath: volume.devicePath,
        uuid: filesystemUuid(id),
        options: mkfsOptions,
        again: decision === 'format again',
      });
      await this.#run(command, { timeoutMs }).catch((error: unknown) => {
        throw error instanceof CommandFailed ? new FilesystemNotCreated(id, wanted.name, mkfsOptions, error) : error;
      });
    }
    if (formattedAs(volume)) return volume;
    const tag = filesystemTag(wanted.name);
    await pool.addTags(id, [tag], signal);
    return { ...volume, tags: [...volume.tags, tag] };
  }

  /** Recognises a filesystem that we created. Everything else, and every decision to format, needs the probe. */
  async #isStillThere(volume: Volume, wanted: Filesystem, signal: AbortSignal): Promise<boolean> {
    if (formattedAs(volume) !== wanted.name) return false;
    const found = await this.#superblockOf(volume, wanted, signal);
    return found !== undefined && found !== 'busy';
  }

  async #superblockOf(volume: Volume, wanted: Filesystem, signal: AbortSignal): ReturnType<ReadSuperblock> {
    try {
      return await this.#superblock(volume.devicePath, wanted, signal);
    } catch (error) {
      if (signal.aborted) throw error;
      throw new DeviceUnreadable(volume.id, messageOf(error));
    }
  }
}

export class FilesystemNotCreated extends MoorageError {
  readonly code = 'Internal';

  constructor(id: VolumeId, wanted: string, options: readonly string[], failure: CommandFailed) {
    const correction = options.length > 0 ? `correct the mkfs options (${options.join(' ')}), or ` : '';
    super(`cannot create ${wanted} on volume ${id}: ${failure.message}; ${correction}check the disk of the volume`, {
      cause: failure,
    });
  }
}

export class DeviceUnreadable extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(id: VolumeId, reason: string) {
    super(`cannot determine what volume ${id} contains, so it is not changed: ${reason}; check its disk`);
  }
}

/** Other disks hang and block the read of this one. */
export class SuperblockBusy extends MoorageError {
  readonly code = 'Unavailable';

  constructor(id: VolumeId) {
    super(
      `cannot determine what volume ${id} contains while other disks do not answer; ` +
        'this is retried; look for a slow or failing disk',
    );
  }
}

export class FilesystemMismatch extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(id: VolumeId, wanted: string, found: string) {
    super(`volume ${id} holds ${found}, ${wanted} requested; it is never reformatted: use ${found}, or a new volume`);
  }
}

export class FilesystemForeign extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(id: VolumeId, found: string, tag = filesystemTag(found)) {
    super(
      `volume ${id} is new but holds ${found} that Moorage did not create, so it is not changed: look at its data; ` +
        `if that is yours, tag the volume ${tag}, otherwise use a new claim`,
    );
  }
}

export class FilesystemVanished extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(id: VolumeId, before: string) {
    super(
      `volume ${id} once held ${before} and now reads as empty, so it is not changed: ` +
        'check whether its disk was swapped or wiped; if its data is lost, restore a backup into a new claim',
    );
  }
}

/** blkid may not recognise what a program wrote to a raw device. */
export class UsedRaw extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(id: VolumeId) {
    super(
      `volume ${id} was used as a raw block device, so it is not formatted: ` +
        'use it with volumeMode Block, or create a new claim for a filesystem',
    );
  }
}

/** What others put on a volume may look empty to blkid. */
export class AdoptedWithoutFilesystem extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(id: VolumeId, wanted: string) {
    super(
      `volume ${id} was adopted and has no filesystem, and Moorage never formats what others created: ` +
        `create ${wanted} on it by hand, or use it with volumeMode Block`,
    );
  }
}
