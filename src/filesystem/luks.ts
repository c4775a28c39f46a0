import { stat } from 'node:fs/promises';
import * as v from 'valibot';
import { MoorageError } from '../base/errors.ts';
import { CommandFailed, type Run } from '../base/exec.ts';
import { KeyedLock } from '../base/keyed-lock.ts';
import { VolumeInUse, VolumeNotFound } from '../engine/errors.ts';
import { luksDevicePath, mappingName } from '../engine/luks-device.ts';
import { encryptedTag, formattedAs, isEncrypted } from '../engine/names-and-tags.ts';
import type { Pool, Volume, VolumeId } from '../engine/pool.ts';
import {
  DeviceUnreadable,
  FilesystemForeign,
  FilesystemMismatch,
  FilesystemVanished,
  filesystemUuid,
} from './format.ts';
import type { Probe, ProbeDevice } from './probe.ts';

/** The cost of trying a key; each open costs the same. */
export interface KeyDerivation {
  readonly memoryBytes: number;
  /** At least 4. */
  readonly iterations: number;
  readonly threads: number;
}

/**
 * Fixed, not benchmarked as cryptsetup does by default: up to half of a node's memory per volume is too much when all
 * volumes are opened at once after a boot.
 */
const defaultDerivation: KeyDerivation = { memoryBytes: 64 * 1024 ** 2, iterations: 4, threads: 1 };

const timeoutMs = 120_000;
/** Exit codes of cryptsetup. */
const [keyRefused, notThere, busy] = [2, 4, 5];

const metadataSchema = v.object({ keyslots: v.record(v.string(), v.unknown()) });

/**
 * LUKS2 on volumes, each with its own keys. The caller passes the key with each call, and it reaches cryptsetup through a
 * pipe; it is never an argument, in the environment, in a file, or in an error. Every method can be retried. A command
 * that has started finishes even if the caller leaves, as half a header helps nobody.
 */
export class Luks {
  readonly #run: Run;
  readonly #probe: ProbeDevice;
  readonly #lock = new KeyedLock();

  constructor({ run, probe }: { readonly run: Run; readonly probe: ProbeDevice }) {
    this.#run = run;
    this.#probe = probe;
  }

  /** Encrypts an empty volume. One that Moorage has already encrypted is not changed. */
  async format(
    pool: Pool,
    id: VolumeId,
    key: Uint8Array,
    signal: AbortSignal,
    derivation: KeyDerivation = defaultDerivation,
  ): Promise<Volume> {
    return this.#alone(id, signal, async () => {
      const volume = pool.get(id);
      if (!volume) throw new VolumeNotFound(pool.name, id);
      const decision = decideEncryption(volume, await this.#probe(volume.devicePath, signal));
      // A crash may have interrupted luksFormat before there was a key; then no data can ever have been written.
      if (decision === 'format' || (!isEncrypted(volume) && (await this.#keySlots(volume)) === 0)) {
        await this.#cryptsetup(volume.id, formatArguments(volume, derivation), key);
      }
      return isEncrypted(volume) ? volume : pool.addTags(id, [encryptedTag], signal);
    });
  }

  /** Returns the decrypted device. A volume that is already open stays open. */
  async open(volume: Volume, key: Uint8Array, signal: AbortSignal): Promise<string> {
    return this.#alone(volume.id, signal, async () => {
      const path = luksDevicePath(volume.id);
      if (!(await this.#isOpenOn(volume))) {
        const access = volume.readOnly ? ['--readonly'] : [];
        const names = [volume.devicePath, mappingName(volume.id)];
        await this.#cryptsetup(volume.id, ['open', '--type', 'luks2', '--key-file=-', ...access, ...names], key);
      }
      return path;
    });
  }

  /** Does nothing if the volume is not open. A volume with the same name in another class is not touched. */
  async close(volume: Volume, signal: AbortSignal): Promise<void> {
    await this.#alone(volume.id, signal, async () => {
      if (await this.#isOpenOn(volume)) await this.#cryptsetup(volume.id, ['close', mappingName(volume.id)]);
    });
  }

  /** Grows an open volume to the size of its device. */
  async resize(volume: Volume, key: Uint8Array, signal: AbortSignal): Promise<void> {
    await this.#alone(volume.id, signal, async () => {
      if (!(await this.#isOpenOn(volume))) return; // it gets its device's size when it is opened
      await this.#cryptsetup(volume.id, ['resize', '--key-file=-', mappingName(volume.id)], key);
    });
  }

  /** Afterwards only the new key opens the volume, even if an interrupted call had left both. */
  async changeKey(
    volume: Volume,
    oldKey: Uint8Array,
    newKey: Uint8Array,
    signal: AbortSignal,
    derivation: KeyDerivation = defaultDerivation,
  ): Promise<void> {
    if (Buffer.compare(oldKey, newKey) === 0) return;
    await this.#alone(volume.id, signal, async () => {
      const { devicePath, id } = volume;
      if (!(await this.#opens(volume, newKey))) {
        const sizes = ['--keyfile-size', String(oldKey.length), '--new-keyfile-size', String(newKey.length)];
        const costs = derivationArguments(derivation);
        const words = ['luksChangeKey', '--batch-mode', '--key-file=-', ...sizes, ...costs, devicePath, '-'];
        await this.#cryptsetup(id, words, Buffer.concat([oldKey, newKey]));
      } else if (await this.#opens(volume, oldKey)) {
        await this.#cryptsetup(id, ['luksRemoveKey', '--batch-mode', devicePath, '-'], oldKey);
      }
    });
  }

  async isLuks(volume: Volume, signal: AbortSignal): Promise<boolean> {
    const probe = await this.#probe(volume.devicePath, signal);
    return probe.kind === 'found' && probe.filesystem === luks;
  }

  async isOpen(volume: Volume): Promise<boolean> {
    return this.#isOpenOn(volume);
  }

  /** This file and an old key open the volume even after the key was changed. The file must not exist yet. */
  async backUpHeader(volume: Volume, file: string, signal: AbortSignal): Promise<void> {
    await this.#alone(volume.id, signal, () =>
      this.#cryptsetup(volume.id, ['luksHeaderBackup', volume.devicePath, '--header-backup-file', file]),
    );
  }

  async #alone<T>(id: VolumeId, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    return this.#lock.run(id, signal, work);
  }

  async #isOpenOn({ id, devicePath }: Volume): Promise<boolean> {
    const backing = await this.#backingDevice(id);
    if (backing === undefined) return false;
    const [open, wanted] = await Promise.all([stat(backing), stat(devicePath)]);
    if (open.rdev !== wanted.rdev) throw new MappingForeign(id, luksDevicePath(id), backing);
    return true;
  }

  /** The device below the open volume; undefined if it is not open. */
  async #backingDevice(id: VolumeId): Promise<string | undefined> {
    try {
      const { stdout } = await this.#run(['cryptsetup', 'status', mappingName(id)], { timeoutMs });
      return /^\s*device:\s*(\S+)/m.exec(stdout)?.[1];
    } catch (error) {
      if (error instanceof CommandFailed && error.exitCode === notThere) return undefined;
      throw error;
    }
  }

  async #keySlots({ id, devicePath }: Volume): Promise<number> {
    const { stdout } = await this.#run(['cryptsetup', 'luksDump', '--dump-json-metadata', devicePath], { timeoutMs });
    const metadata = v.safeParse(metadataSchema, JSON.parse(stdout));
    if (!metadata.success) throw new EncryptionBroken(id);
    return Object.keys(metadata.output.keyslots).length;
  }

  async #opens({ id, devicePath }: Volume, key: Uint8Array): Promise<boolean> {
    try {
      await this.#cryptsetup(id, ['open', '--test-passphrase', '--type', 'luks2', '--key-file=-', devicePath], key);
      return true;
    } catch (error) {
      if (error instanceof WrongKey) return false;
      throw error;
    }
  }

  async #cryptsetup(id: VolumeId, args: readonly string[], key?: Uint8Array): Promise<void> {
    try {
      await this.#run(['cryptsetup', ...args], { timeoutMs, ...(key && { input: key }) });
    } catch (error) {
      if (!(error instanceof CommandFailed)) throw error;
      if (error.exitCode === keyRefused) throw new WrongKey(id, { cause: error });
      if (error.exitCode === busy) throw new VolumeInUse(id, luksDevicePath(id), { cause: error });
      throw error;
    }
  }
}

function formatArguments({ id, devicePath }: Volume, derivation: KeyDerivation): string[] {
  return [
    ...['luksFormat', '--type', 'luks2', '--batch-mode', '--key-file=-'],
    ...['--uuid', filesystemUuid(id), ...derivationArguments(derivation)], // marks it as ours
    devicePath,
  ];
}

function derivationArguments({ memoryBytes, iterations, threads }: KeyDerivation): string[] {
  return [
    ...['--pbkdf', 'argon2id', '--pbkdf-memory', String(Math.ceil(memoryBytes / 1024))],
    ...['--pbkdf-force-iterations', String(iterations), '--pbkdf-parallel', String(threads)],
  ];
}

export class WrongKey extends MoorageError {
  readonly code = 'PermissionDenied';

  constructor(id: VolumeId, options?: ErrorOptions) {
    super(`the key does not open volume ${id}; use the key that it was encrypted with or last changed to`, options);
  }
}

export class EncryptionBroken extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(id: VolumeId) {
    super(`cannot parse the LUKS header of volume ${id}; restore it from a header backup`);
  }
}

/** Another device is open under the name of this volume. */
export class MappingForeign extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(id: VolumeId, mapping: string, backing: string) {
    super(
      `${mapping} is open on ${backing}, which is not volume ${id}; if nobody uses it, close it with cryptsetup close`,
    );
  }
}

export const luks = 'crypto_LUKS';

/**
 * The only place that allows a LUKS header to be written. Our own header is recognised by the tag, or before the tag is
 * set by the UUID that is derived from the volume's id.
 */
export function decideEncryption(volume: Volume, probe: Probe): 'format' | 'keep' {
  if (probe.kind === 'unknown') throw new DeviceUnreadable(volume.id, probe.reason);
  if (probe.kind === 'found') {
    if (probe.filesystem !== luks) throw new FilesystemMismatch(volume.id, luks, probe.filesystem);
    if (isEncrypted(volume) || probe.uuid === filesystemUuid(volume.id)) return 'keep';
    throw new FilesystemForeign(volume.id, luks);
  }
  const before = isEncrypted(volume) ? luks : formattedAs(volume);
  if (before) throw new FilesystemVanished(volume.id, before);
  return 'format';
}
