import { secretEntries } from '../../api/names.ts';
import { blockDeviceAt } from '../../base/device-number.ts';
import { MoorageError } from '../../base/errors.ts';
import type { PreparedUse } from '../../csi/node/node-volumes.ts';
import { holdDevice } from '../../engine/held-device.ts';
import { luksDevicePath } from '../../engine/luks-device.ts';
import type { Pool, Volume, VolumeId } from '../../engine/pool.ts';
import type { Mounts } from '../../filesystem/mounts.ts';
import { untouchedRoot } from '../../filesystem/root.ts';
import type { VolumeKeys } from '../../filesystem/volume-keys.ts';
import type { StaticVolume } from '../../local-pv/static-volume.ts';
import { type EncryptedVolumes, KeyMissing } from '../../volumes/encrypted-volumes.ts';
import { mountedDevices } from '../../volumes/mounted-devices.ts';
import { mountOptions } from '../../volumes/prepared-filesystems.ts';
import type { Held } from './next-step.ts';
import type { VolumeMounts } from './volume-mounts.ts';
import { hideFrom, mountPointOf, removeBareDirectory, showAt } from './volume-path.ts';

/** Reads the keys in a Secret; undefined if it or its passphrase is missing. */
export type ReadKeys = (secretName: string, signal: AbortSignal) => Promise<VolumeKeys | undefined>;

interface Collaborators {
  /** For volumes that can be mounted without a key. */
  readonly plain: VolumeMounts;
  /** For encrypted volumes, which nobody but the agent can open. */
  readonly encrypted: VolumeMounts;
  readonly table: Pick<Mounts, 'at' | 'holding'>;
  readonly luks: Pick<EncryptedVolumes, 'open' | 'grow' | 'close'>;
  readonly readKeys: ReadKeys;
}

/** Shows static volumes to pods at their paths. Every method can be retried after a crash between any two steps. */
export class ShownVolumes {
  readonly #plain: VolumeMounts;
  readonly #encrypted: VolumeMounts;
  readonly #table: Collaborators['table'];
  readonly #luks: Collaborators['luks'];
  readonly #readKeys: ReadKeys;

  constructor({ plain, encrypted, table, luks, readKeys }: Collaborators) {
    this.#plain = plain;
    this.#encrypted = encrypted;
    this.#table = table;
    this.#luks = luks;
    this.#readKeys = readKeys;
  }

  /** Encrypts and formats a new volume, grows the filesystem to the volume, mounts it, and shows it at the path. */
  async show(wanted: StaticVolume, held: Held, signal: AbortSignal): Promise<void> {
    const { name, path } = wanted;
    await using _ = await holdDevice(held.volume);
    const volume = await this.#decrypted(wanted, held, signal);
    // A volume of k8s-local-pv stays where that has mounted it.
    if (await this.#table.holding(path, volume.devicePath)) return this.#mount(path, wanted, held.pool, volume, signal);
    const mountPoint = mountPointOf(name);
    // A pod must never start on the bare mount point, so the link is removed before that exists.
    if (!(await this.#table.at(mountPoint))) await hideFrom(path, mountPoint);
    try {
      await this.#mount(mountPoint, wanted, held.pool, volume, signal);
    } finally {
      if (!(await this.#table.at(mountPoint))) await removeBareDirectory(mountPoint);
    }
    await showAt(path, mountPoint);
  }

  /** Afterwards the volume is not mounted, and no pod can start on it. Fails if a pod uses it. */
  async hide(wanted: StaticVolume, volume: Volume | undefined, signal: AbortSignal): Promise<void> {
    const { name, path } = wanted;
    const mountPoint = mountPointOf(name);
    const mounts = this.#mountsOf(wanted);
    await this.#mustNotBeUsed(name, [volume?.devicePath ?? [], luksDevicePath(name)].flat(), [mountPoint, path]);
    await hideFrom(path, mountPoint);
    await mounts.unmount(mountPoint, signal);
    await removeBareDirectory(mountPoint);
    if (volume && (await this.#table.holding(path, volume.devicePath))) {
      await mounts.unmount(path, signal);
      await removeBareDirectory(path);
    }
    await this.#luks.close(name, volume, signal);
  }

  #mountsOf({ cryptSecret }: StaticVolume): VolumeMounts {
    return cryptSecret === undefined ? this.#plain : this.#encrypted;
  }

  async #mount(target: string, wanted: StaticVolume, pool: Pool, volume: Volume, signal: AbortSignal): Promise<void> {
    const { filesystem, mountOptions: flags } = wanted;
    const mounts = this.#mountsOf(wanted);
    const isMounted = (await this.#table.at(target)) !== undefined;
    await mounts.filesystems.mountAt(target, pool, volume, useOf(wanted), signal);
    const options = mountOptions(filesystem, flags, volume);
    const request = { source: volume.devicePath, target, filesystem: filesystem.name, options };
    if (isMounted) await mounts.keep(request, signal);
  }

  /** The volume with the device that holds the filesystem. */
  async #decrypted({ name, cryptSecret }: StaticVolume, { pool, volume }: Held, signal: AbortSignal): Promise<Volume> {
    if (cryptSecret === undefined) return volume;
    using keys = await this.#readKeys(cryptSecret, signal);
    try {
      await this.#luks.open(pool, name, keys, signal);
    } catch (error) {
      throw error instanceof KeyMissing ? new SecretMissing(name, cryptSecret) : error;
    }
    return await this.#luks.grow(volume, keys, signal); // before the keys are disposed of
  }

  async #mustNotBeUsed(id: VolumeId, devices: readonly string[], own: readonly string[]): Promise<void> {
    const numbers = await Promise.all(devices.map(blockDeviceAt));
    const ownTargets = await Promise.all(own.map(async (path) => (await this.#table.at(path))?.target));
    const other = (await mountedDevices('/')).find(
      ({ device, target }) => numbers.includes(device) && !ownTargets.includes(target),
    );
    if (other) throw new UsedByPod(id, other.target);
  }
}

/** The root directory stays as mkfs creates it, as in k8s-local-pv: the kubelet sets its group if the pod has an fsGroup. */
function useOf({ filesystem, mountOptions, mkfsOptions }: StaticVolume): PreparedUse & { readonly kind: 'filesystem' } {
  const settings = { mkfsOptions, rootMode: untouchedRoot.mode, rootOwner: untouchedRoot.owner };
  return { kind: 'filesystem', filesystem, mountFlags: mountOptions, settings };
}

/** Nothing reports when a mount ends, so this is retried. */
export class UsedByPod extends MoorageError {
  readonly code = 'Unavailable';

  constructor(id: VolumeId, target: string) {
    super(`volume ${id} is still mounted at ${target}; it is neither removed nor emptied before that pod is gone`);
  }
}

/** Secrets are not watched, so this is retried. */
export class SecretMissing extends MoorageError {
  readonly code = 'Unavailable';

  constructor(id: VolumeId, secretName: string) {
    super(
      `volume ${id} is to be encrypted, and there is no Secret ${secretName} with the entry ${secretEntries.passphrase} in ` +
        'the namespace of the agent, or the agent may not read it; create it, and name it in localPv.cryptSecrets of the chart',
    );
  }
}
