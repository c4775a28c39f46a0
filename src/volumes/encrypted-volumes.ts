import { secretEntries, secretParameters } from '../api/names.ts';
import { deviceSizeBytes } from '../base/device-number.ts';
import { MoorageError } from '../base/errors.ts';
import type { Run } from '../base/exec.ts';
import type { Log } from '../base/log.ts';
import { VolumeInactive, VolumeNotFound } from '../engine/errors.ts';
import { luksDevicePath } from '../engine/luks-device.ts';
import { createdTag, encryptedTag, isEncrypted, showsUse } from '../engine/names-and-tags.ts';
import type { Pool, Volume, VolumeId } from '../engine/pool.ts';
import { FilesystemForeign, SuperblockBusy } from '../filesystem/format.ts';
import { Luks, luks, luksHeader } from '../filesystem/luks.ts';
import { blkid, type ReadSuperblock, superblockReader } from '../filesystem/probe.ts';
import type { VolumeKeys } from '../filesystem/volume-keys.ts';

interface Collaborators {
  readonly luks: Pick<Luks, 'format' | 'open' | 'close' | 'resize' | 'changeKey' | 'isOpen'>;
  readonly superblock: ReadSuperblock;
  readonly log: Log;
  /** Reads the size of a decrypted device from the kernel. */
  readonly deviceSize?: typeof deviceSizeBytes;
}

/**
 * Encrypted volumes as their users see them: an open volume is a {@link Volume} whose device, size and tags are those of the
 * decrypted contents, so whoever formats, mounts or binds it need not know that it is encrypted.
 *
 * There is no state but the kernel's: every method works after a restart, and can be retried.
 */
export class EncryptedVolumes {
  readonly #luks: Collaborators['luks'];
  readonly #superblock: ReadSuperblock;
  readonly #log: Log;
  readonly #deviceSize: typeof deviceSizeBytes;

  constructor({ luks, superblock, log, deviceSize }: Collaborators) {
    this.#luks = luks;
    this.#superblock = superblock;
    this.#log = log;
    this.#deviceSize = deviceSize ?? deviceSizeBytes;
  }

  /** Encrypts with the commands of this machine. */
  static create({ run, log }: { readonly run: Run; readonly log: Log }): EncryptedVolumes {
    return new EncryptedVolumes({ luks: new Luks({ run, probe: blkid(run) }), superblock: superblockReader(), log });
  }

  /**
   * The decrypted volume. If it is proven empty, it is encrypted first; if it has other contents, it is refused. A volume that
   * is open needs no keys.
   */
  async open(pool: Pool, id: VolumeId, keys: VolumeKeys | undefined, signal: AbortSignal): Promise<Volume> {
    const volume = pool.get(id);
    if (!volume) throw new VolumeNotFound(pool.name, id);
    const isOpen = isEncrypted(volume) && (await this.#luks.isOpen(volume));
    if (!keys && !isOpen) throw new KeyMissing(id);
    if (!keys) return this.#decrypted(volume);
    const encrypted = isOpen ? volume : await this.#luks.format(pool, id, keys.current, signal);
    await this.#replaceKey(encrypted, keys, signal);
    await this.#luks.open(encrypted, keys.current, signal);
    return this.#decrypted(encrypted);
  }

  /** Grows the decrypted device of an open volume to the size of the volume. */
  async grow(volume: Volume, keys: VolumeKeys | undefined, signal: AbortSignal): Promise<Volume> {
    if (keys) await this.#replaceKey(volume, keys, signal);
    await this.#luks.resize(volume, keys?.current, signal);
    return this.#decrypted(volume);
  }

  /** Refused while it is mounted or published. Does nothing if it is not open. `volume` is undefined if no pool has it. */
  async close(id: VolumeId, volume: Volume | undefined, signal: AbortSignal): Promise<void> {
    await this.#luks.close(volume ?? { id }, signal);
  }

  /**
   * For a volume whose tags and request do not say that it is encrypted, before it is first published raw: somebody may have
   * removed the tag, and a pod could overwrite what it cannot read. Pods and adopted volumes may have headers of their own.
   */
  async mustBePlain(volume: Volume, signal: AbortSignal): Promise<void> {
    const { id, tags, devicePath } = volume;
    if (!tags.includes(createdTag) || tags.some(showsUse)) return;
    const found = await this.#superblock(devicePath, luksHeader, signal);
    if (found === 'busy') throw new SuperblockBusy(id);
    if (found) throw new FilesystemForeign(id, luks, encryptedTag);
  }

  /** A crash at any point leaves a volume that one of the two keys opens, and the next call continues. */
  async #replaceKey(volume: Volume, { current, previous }: VolumeKeys, signal: AbortSignal): Promise<void> {
    if (!previous) return;
    const outcome = await this.#luks.changeKey(volume, previous, current, signal);
    if (outcome === 'changed') this.#log.info({ volume: volume.id }, 'key of encrypted volume changed');
  }

  async #decrypted(volume: Volume): Promise<Volume> {
    const devicePath = luksDevicePath(volume.id);
    const sizeBytes = await this.#deviceSize(devicePath);
    if (sizeBytes === undefined) throw new VolumeInactive(volume.id, `${devicePath} is missing`);
    return { ...volume, devicePath, sizeBytes, tags: volume.tags.filter((tag) => tag !== encryptedTag) };
  }
}

export class KeyMissing extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(id: VolumeId) {
    super(
      `volume ${id} is encrypted and not open, and the request has no key; check that its Secret has the entry ` +
        `${secretEntries.passphrase}, and that its StorageClass named that Secret when the claim was created: ` +
        `${secretParameters.stage} and ${secretParameters.publish}, each with -namespace; if the class lacks the latter, ` +
        'stop all its pods on this node until it is unstaged',
    );
  }
}
