import { secretParameters } from '../api/names.ts';
import { deviceSizeBytes } from '../base/device-number.ts';
import { MoorageError } from '../base/errors.ts';
import { CommandFailed, type Run } from '../base/exec.ts';
import { KeyedLock } from '../base/keyed-lock.ts';
import { VolumeNotFound } from '../engine/errors.ts';
import {
  closeMapping,
  luksDevicePath,
  luksHeaderBytes,
  type MaybeOpen,
  mappingName,
  mappingOf,
} from '../engine/luks-device.ts';
import { adoptedTag, createdTag, encryptedTag, formattedAs, isEncrypted, rawTag } from '../engine/names-and-tags.ts';
import type { Pool, Volume, VolumeId } from '../engine/pool.ts';
import { Cryptsetup, defaultDerivation, derivationArguments, type KeyDerivation, WrongKey } from './cryptsetup.ts';
import type { SuperblockLayout } from './filesystem.ts';
import {
  AdoptedWithoutFilesystem,
  DeviceUnreadable,
  FilesystemForeign,
  FilesystemMismatch,
  FilesystemVanished,
  filesystemUuid,
  UsedRaw,
} from './format.ts';
import { type Probe, type ProbeDevice, probedMebibytes } from './probe.ts';

const zeroTimeoutMs = 60_000;
const mebibyte = 1024n ** 2n;

/** The label of a header until the volume can be used: whatever the device contains, it is not data. */
const unfinishedLabel = 'moorage-unfinished';

interface LuksOptions {
  readonly run: Run;
  readonly probe: ProbeDevice;
  /** Of new keys. */
  readonly derivation?: KeyDerivation;
}

/** LUKS2 on volumes, each with its own keys, which the caller passes with each call. Every method can be retried. */
export class Luks {
  readonly #run: Run;
  readonly #probe: ProbeDevice;
  readonly #derivation: KeyDerivation;
  readonly #cryptsetup: Cryptsetup;
  readonly #lock = new KeyedLock();

  constructor({ run, probe, derivation = defaultDerivation }: LuksOptions) {
    this.#run = run;
    this.#probe = probe;
    this.#derivation = derivation;
    this.#cryptsetup = new Cryptsetup(run);
  }

  /** Encrypts an empty volume and leaves it open. One that is already encrypted is not changed. */
  async format(
    pool: Pick<Pool, 'name' | 'get' | 'addTags'>,
    id: VolumeId,
    key: Uint8Array,
    signal: AbortSignal,
  ): Promise<Volume> {
    return this.#lock.run(id, signal, async () => {
      const volume = pool.get(id);
      if (!volume) throw new VolumeNotFound(pool.name, id);
      if (decideEncryption(volume, await this.#probe(volume.devicePath, signal)) === 'format') {
        await closeMapping(this.#run, volume); // an interrupted call may have left it open
        await this.#cryptsetup.withKey(id, formatArguments(volume, this.#derivation), key, signal);
        await this.#open(volume, key, signal);
        await this.#zeroEnds(luksDevicePath(id));
        await this.#cryptsetup.withoutKey(id, ['config', '--label', '', volume.devicePath]);
      }
      const encrypted = isEncrypted(volume) ? volume : await pool.addTags(id, [encryptedTag], signal);
      if (!isEncrypted(encrypted)) throw new EncryptionNotRecorded(id);
      return encrypted;
    });
  }

  /** Returns the decrypted device. A volume that is already open stays open. */
  async open(volume: Volume, key: Uint8Array, signal: AbortSignal): Promise<string> {
    return this.#lock.run(volume.id, signal, () => this.#open(volume, key, signal));
  }

  /** A volume with the same name in another class is not touched. */
  async close(volume: MaybeOpen, signal: AbortSignal): Promise<void> {
    await this.#lock.run(volume.id, signal, () => closeMapping(this.#run, volume));
  }

  /**
   * Grows an open volume to the size of its device. The kernel usually holds the key where nobody can read it, and then
   * cryptsetup needs it again.
   */
  async resize(volume: Volume, key: Uint8Array | undefined, signal: AbortSignal): Promise<void> {
    const { id } = volume;
    await this.#lock.run(id, signal, async () => {
      const mapping = await mappingOf(this.#run, volume);
      const wantedBytes = await deviceSizeBytes(volume.devicePath);
      if (!mapping || wantedBytes === undefined) return; // it gets its device's size when it is opened
      if (mapping.endBytes >= wantedBytes) return;
      const words = ['resize', '--batch-mode'];
      if (key) return this.#cryptsetup.withKey(id, [...words, '--key-file=-', mappingName(id)], key, signal);
      await this.#cryptsetup.withoutKey(id, [...words, mappingName(id)]).catch((error: unknown) => {
        const isAsked = error instanceof CommandFailed && /nothing to read/i.test(error.stderr);
        throw isAsked ? new KeyNeededToGrow(id, { cause: error }) : error;
      });
    });
  }

  /** Afterwards only the new key opens the volume, even if an interrupted call had left both. */
  async changeKey(
    volume: Volume,
    oldKey: Uint8Array,
    newKey: Uint8Array,
    signal: AbortSignal,
  ): Promise<'changed' | 'unchanged'> {
    if (Buffer.compare(oldKey, newKey) === 0) return 'unchanged';
    const { id, devicePath } = volume;
    return this.#lock.run(id, signal, async () => {
      if (!(await this.#opens(volume, newKey, signal))) {
        const sizes = ['--keyfile-size', String(oldKey.length), '--new-keyfile-size', String(newKey.length)];
        const costs = derivationArguments(this.#derivation);
        const words = ['luksChangeKey', '--batch-mode', '--key-file=-', ...sizes, ...costs, devicePath, '-'];
        const both = Buffer.concat([oldKey, newKey]);
        await this.#cryptsetup.withKey(id, words, both, signal).finally(() => both.fill(0));
        return 'changed';
      }
      if (!(await this.#opens(volume, oldKey, signal))) return 'unchanged';
      await this.#cryptsetup.withKey(id, ['luksRemoveKey', '--batch-mode', devicePath, '-'], oldKey, signal);
      return 'changed';
    });
  }

  async isOpen(volume: Volume): Promise<boolean> {
    return (await mappingOf(this.#run, volume)) !== undefined;
  }

  async #open(volume: Volume, key: Uint8Array, signal: AbortSignal): Promise<string> {
    const { id, devicePath, readOnly } = volume;
    if (!(await this.isOpen(volume))) {
      const access = readOnly ? ['--readonly'] : [];
      const words = ['open', '--type', 'luks2', '--key-file=-', ...access, devicePath, mappingName(id)];
      await this.#cryptsetup.withKey(id, words, key, signal);
    }
    return luksDevicePath(id);
  }

  async #opens({ id, devicePath }: Volume, key: Uint8Array, signal: AbortSignal): Promise<boolean> {
    const words = ['open', '--test-passphrase', '--type', 'luks2', '--key-file=-', devicePath];
    try {
      await this.#cryptsetup.withKey(id, words, key, signal);
      return true;
    } catch (error) {
      if (error instanceof WrongKey) return false;
      throw error;
    }
  }

  /** Decrypted, an empty device reads as random bytes, which a probe could not distinguish from data. */
  async #zeroEnds(devicePath: string): Promise<void> {
    const sizeMebibytes = Number(((await deviceSizeBytes(devicePath)) ?? 0n) / mebibyte);
    const { head, tail } = probedMebibytes;
    for (const [at, length] of [
      [0, head],
      [Math.max(0, sizeMebibytes - tail), tail + 1],
    ]) {
      const range = ['--offset', `${at}MiB`, '--length', `${length}MiB`]; // cut off at the end of the device
      await this.#run(['blkdiscard', '--zeroout', ...range, devicePath], { timeoutMs: zeroTimeoutMs });
    }
  }
}

function formatArguments({ id, devicePath }: Volume, derivation: KeyDerivation): string[] {
  return [
    ...['luksFormat', '--type', 'luks2', '--batch-mode', '--key-file=-', '--label', unfinishedLabel],
    ...['--uuid', filesystemUuid(id), ...derivationArguments(derivation)], // marks it as ours
    devicePath,
  ];
}

export const luks = 'crypto_LUKS';

/** Recognises a header without a command. */
export const luksHeader: { readonly superblock: SuperblockLayout } = {
  superblock: {
    offsetBytes: 0,
    parse: (block) => (isMagic(block) ? { sizeBytes: luksHeaderBytes, isUnfinished: false } : undefined),
  },
};

function isMagic(block: DataView): boolean {
  return [...Buffer.from('LUKS\xba\xbe', 'latin1')].every((byte, at) => block.getUint8(at) === byte);
}

/**
 * The only place that allows a LUKS header to be written. Our own header is recognised by the tag, or before the tag is
 * set by the UUID that is derived from the volume's id. While that header is labelled as unfinished, it is written again.
 */
export function decideEncryption(volume: Volume, probe: Probe): 'format' | 'keep' {
  if (probe.kind === 'unknown') throw new DeviceUnreadable(volume.id, probe.reason);
  if (probe.kind === 'found') {
    if (probe.filesystem !== luks) throw new FilesystemMismatch(volume.id, luks, probe.filesystem);
    if (isEncrypted(volume)) return 'keep';
    if (probe.uuid === filesystemUuid(volume.id)) return probe.label === unfinishedLabel ? 'format' : 'keep';
    if (!volume.tags.includes(createdTag)) return 'keep'; // that of the people who created the volume
    throw new FilesystemForeign(volume.id, luks, encryptedTag);
  }
  const before = isEncrypted(volume) ? luks : formattedAs(volume);
  if (before) throw new FilesystemVanished(volume.id, before);
  if (volume.tags.includes(rawTag)) throw new UsedRaw(volume.id);
  if (volume.tags.includes(adoptedTag)) throw new AdoptedWithoutFilesystem(volume.id, luks);
  return 'format';
}

/** Without the tag, nobody who only sees the volume would know that it has to be decrypted. */
export class EncryptionNotRecorded extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(id: VolumeId) {
    super(`volume ${id} cannot be encrypted, as TopoLVM's lvmd cannot record that it is; use moorage lvmd`);
  }
}

export class KeyNeededToGrow extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(id: VolumeId, options?: ErrorOptions) {
    super(
      `encrypted volume ${id} cannot grow while it is in use, as its key is missing from the request; restart its pods, and name ` +
        `the Secret in the StorageClass for claims to come: ${secretParameters.expand} and -namespace`,
      options,
    );
  }
}
