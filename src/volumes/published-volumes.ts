import { abortable } from '../base/abortable.ts';
import { MoorageError, messageOf } from '../base/errors.ts';
import type { Run } from '../base/exec.ts';
import { KeyedLock } from '../base/keyed-lock.ts';
import type { Encryption, Growth, NodeVolumes, Publication, Staging, VolumeStats } from '../csi/node/node-volumes.ts';
import type { EphemeralVolume } from '../csi/volume-use.ts';
import { isHeld } from '../engine/device-use.ts';
import { VolumeInUse } from '../engine/errors.ts';
import { holdDevice } from '../engine/held-device.ts';
import { deviceInUse } from '../engine/luks-device.ts';
import { isEncrypted, isProvenUnused, rawTag, retiredTag } from '../engine/names-and-tags.ts';
import type { Pool, Volume, VolumeId } from '../engine/pool.ts';
import { type Pools, poolHolding } from '../engine/pools.ts';
import { filesystemNamed } from '../filesystem/filesystem.ts';
import { Formatter } from '../filesystem/format.ts';
import { FilesystemGrower } from '../filesystem/growth.ts';
import { createMountDirectory, createMountFile, Mounts, removeMountPoint } from '../filesystem/mounts.ts';
import { blkid, type ProbeDevice, superblockReader } from '../filesystem/probe.ts';
import type { EncryptedVolumes } from './encrypted-volumes.ts';
import type { EphemeralVolumes } from './ephemeral-volumes.ts';
import { mustNotMove } from './moving-volumes.ts';
import { mustHold } from './pool-holding.ts';
import { PreparedFilesystems } from './prepared-filesystems.ts';
import { kindOfPath, NotAtPath, volumeStats } from './volume-stats.ts';

interface Collaborators {
  readonly pools: Pick<Pools, 'all' | 'unavailable'>;
  readonly filesystems: Pick<PreparedFilesystems, 'isAt' | 'mountAt'>;
  readonly grower: Pick<FilesystemGrower, 'grow'>;
  readonly mounts: Pick<Mounts, 'at' | 'holding' | 'targetsOf' | 'bind' | 'protect' | 'unmount'>;
  readonly ephemeral: Pick<EphemeralVolumes, 'create' | 'removeIfEphemeral'>;
  readonly encrypted: Pick<EncryptedVolumes, 'open' | 'grow' | 'close' | 'mustBePlain'>;
  readonly probe: ProbeDevice;
  /** Called each time a volume was published to a pod. */
  readonly onPublished?: ((id: VolumeId) => void) | undefined;
  /** Called after each attempt to decrypt a volume that is staged, or to create, mount or grow its filesystem; with the error, if any. */
  readonly onPrepared?: ((id: VolumeId, error?: unknown) => void) | undefined;
  /** Called each time a volume was unpublished or unstaged: nothing may have it open now. */
  readonly onGivenBack?: ((id: VolumeId) => void) | undefined;
  /** Measures a volume's usage. */
  readonly look?: typeof volumeStats;
  /** Holds a volume's device open while it is being published. */
  readonly hold?: Hold;
}

/** Where the kubelet stages a volume, once for the node. Pods have their own mounts. */
const stagingPaths = /\/plugins\/kubernetes\.io\/csi\/.*\/globalmount$/;

type Hold = (volume: Volume) => Promise<AsyncDisposable>;

/** Publishes this node's volumes to its pods. Calls for one volume run one at a time; volumes do not wait for each other. */
export class PublishedVolumes implements NodeVolumes {
  readonly #pools: Collaborators['pools'];
  readonly #filesystems: Collaborators['filesystems'];
  readonly #grower: Collaborators['grower'];
  readonly #mounts: Collaborators['mounts'];
  readonly #ephemeral: Collaborators['ephemeral'];
  readonly #encrypted: Collaborators['encrypted'];
  readonly #probe: ProbeDevice;
  readonly #onPublished: Collaborators['onPublished'];
  readonly #onPrepared: Collaborators['onPrepared'];
  readonly #onGivenBack: Collaborators['onGivenBack'];
  readonly #look: typeof volumeStats;
  readonly #hold: Hold;
  readonly #lock = new KeyedLock();
  /** Only what this process published; earlier targets are unknown. */
  readonly #targets = new Map<VolumeId, Set<string>>();
  /** Running measurements, by volume and path. */
  readonly #looks = new Map<string, Promise<VolumeStats>>();

  constructor({ pools, filesystems, grower, mounts, ephemeral, encrypted, probe, ...given }: Collaborators) {
    this.#pools = pools;
    this.#filesystems = filesystems;
    this.#grower = grower;
    this.#mounts = mounts;
    this.#ephemeral = ephemeral;
    this.#encrypted = encrypted;
    this.#probe = probe;
    this.#onPublished = given.onPublished;
    this.#onPrepared = given.onPrepared;
    this.#onGivenBack = given.onGivenBack;
    this.#look = given.look ?? volumeStats;
    this.#hold = given.hold ?? holdDevice;
  }

  /** Formats, grows and mounts with the commands of this machine. */
  static create({
    run,
    ...given
  }: Omit<Collaborators, 'filesystems' | 'grower' | 'mounts' | 'probe'> & { readonly run: Run }): PublishedVolumes {
    const superblock = superblockReader();
    const probe = blkid(run);
    const mounts = new Mounts({ run });
    const grower = new FilesystemGrower({ run, superblock });
    const formatter = new Formatter({ run, probe, superblock });
    const filesystems = new PreparedFilesystems({ formatter, grower, mounts });
    return new PublishedVolumes({ ...given, filesystems, grower, mounts, probe });
  }

  async stage({ volumeId, stagingPath, use, encryption }: Staging, signal: AbortSignal): Promise<void> {
    await this.#lock.run(volumeId, signal, async () => {
      const { pool, volume } = this.#usable(volumeId);
      await using _ = await this.#hold(volume);
      // A raw device is bound for each pod directly; staging only checks that it exists.
      if (use.kind === 'block' && !isDecrypted(volume, encryption)) return;
      await this.#preparing(volumeId, async () => {
        try {
          const readable = await this.#readable(pool, volume, encryption, signal);
          if (use.kind === 'filesystem') await this.#filesystems.mountAt(stagingPath, pool, readable, use, signal);
        } catch (error) {
          if (isDecrypted(volume, encryption) && !signal.aborted) await this.#closeUnused(volume, signal);
          throw error;
        }
      });
    });
  }

  /** The caller created the directory, so it stays. */
  async unstage(volumeId: string, stagingPath: string, signal: AbortSignal): Promise<void> {
    await this.#lock.run(volumeId, signal, async () => {
      await this.#mounts.unmount(stagingPath, signal);
      await this.#encrypted.close(volumeId, poolHolding(this.#pools, volumeId)?.get(volumeId), signal);
    });
    this.#onGivenBack?.(volumeId);
  }

  /**
   * Unmounts a volume that no pod has, for a move: the kubelet leaves it staged while another pod waits for it on this node.
   * If it is needed here again, publishing stages it. The kubelet then sends the key of an encrypted volume only if its
   * StorageClass names the Secret for publishing, too.
   */
  async close(volumeId: VolumeId, signal: AbortSignal): Promise<void> {
    await this.#lock.run(volumeId, signal, async () => {
      const { volume } = mustHold(this.#pools, volumeId);
      const targets = await this.#mounts.targetsOf(deviceInUse(volume));
      if (!targets.every((target) => stagingPaths.test(target))) return;
      for (const target of targets) await this.#mounts.unmount(target, signal);
      await this.#encrypted.close(volumeId, volume, signal);
    });
  }

  async publish(publication: Publication, signal: AbortSignal): Promise<void> {
    const { volumeId, targetPath, ephemeral, exclusive } = publication;
    await this.#lock.run(volumeId, signal, async () => {
      if (exclusive) await this.#mustBeAlone(volumeId, targetPath);
      if (ephemeral) await this.#showEphemeral(publication, ephemeral, signal);
      else await this.#show(publication, signal);
      this.#targets.set(volumeId, new Set(this.#targets.get(volumeId)).add(targetPath));
      this.#onPublished?.(volumeId);
    });
  }

  async unpublish(volumeId: string, targetPath: string, signal: AbortSignal): Promise<void> {
    await this.#lock.run(volumeId, signal, () => this.#takeAway(volumeId, targetPath, signal));
    this.#onGivenBack?.(volumeId);
  }

  /**
   * Without the lock: a format or growth of the same volume must not delay its stats. A call on a hung disk blocks one of
   * the few threads of the process, so concurrent callers share one.
   */
  async stats(volumeId: string, volumePath: string, signal: AbortSignal): Promise<VolumeStats> {
    const key = `${volumeId} ${volumePath}`;
    const look =
      this.#looks.get(key) ??
      this.#look(volumeId, volumePath, poolHolding(this.#pools, volumeId)).finally(() => this.#looks.delete(key));
    this.#looks.set(key, look);
    look.catch(() => undefined); // the caller may have left
    return abortable(look, signal);
  }

  async grow(growth: Growth, signal: AbortSignal): Promise<bigint> {
    const { volumeId, isBlock, keys } = growth;
    return this.#lock.run(volumeId, signal, async () => {
      const { volume } = mustHold(this.#pools, volumeId);
      let readable = volume;
      if (isEncrypted(volume)) {
        await this.#preparing(volumeId, async () => {
          readable = await this.#encrypted.grow(volume, keys, signal);
        });
      }
      if (!isBlock) await this.#growFilesystem(readable, growth, signal);
      return volume.sizeBytes;
    });
  }

  /** The volume as its user sees it. Nothing is encrypted, or decrypted, unless the request or the volume's tags say so. */
  async #readable(
    pool: Pool,
    volume: Volume,
    encryption: Encryption | undefined,
    signal: AbortSignal,
  ): Promise<Volume> {
    if (!isDecrypted(volume, encryption)) return volume;
    return this.#encrypted.open(pool, volume.id, encryption?.keys, signal);
  }

  /** After a final error the kubelet never unstages. */
  async #closeUnused(volume: Volume, signal: AbortSignal): Promise<void> {
    try {
      await this.#encrypted.close(volume.id, volume, signal);
    } catch (error) {
      if (!(error instanceof VolumeInUse)) throw error; // another pod has it
    }
  }

  /**
   * Whether it is proven that the volume was never used. If so, it can never be used from then on: a tag on the disk says
   * so, and no call that could use the volume runs meanwhile.
   */
  async retireIfUnused(volumeId: VolumeId, signal: AbortSignal): Promise<boolean> {
    return this.#lock.run(volumeId, signal, async () => {
      await mustHold(this.#pools, volumeId).pool.refresh(signal); // others may have changed the tags
      const { pool, volume } = mustHold(this.#pools, volumeId);
      if (!isProvenUnused(volume)) return false;
      if (volume.tags.includes(retiredTag)) return true;
      // Our tags say nothing about programs other than Moorage, such as TopoLVM or an administrator's.
      if (await isHeld(volume.devicePath)) return false;
      if ((await this.#probe(volume.devicePath, signal)).kind !== 'empty') return false;
      return isProvenUnused(await pool.addTags(volumeId, [retiredTag], signal));
    });
  }

  #usable(volumeId: VolumeId): ReturnType<typeof mustHold> {
    const held = mustHold(this.#pools, volumeId);
    if (held.volume.tags.includes(retiredTag)) throw new VolumeRetired(volumeId);
    mustNotMove(held.volume);
    return held;
  }

  /**
   * After a final error the kubelet never unpublishes, so a volume that this call created must be removed at once. One
   * that existed before may hold the pod's data. A caller that has left does not know the outcome, and unpublishes.
   */
  async #showEphemeral(publication: Publication, wanted: EphemeralVolume, signal: AbortSignal): Promise<void> {
    const { volumeId, targetPath } = publication;
    const isNew = await this.#ephemeral.create(volumeId, wanted, signal);
    try {
      await this.#show(publication, signal);
    } catch (error) {
      if (!isNew || signal.aborted) throw error;
      try {
        await this.#takeAway(volumeId, targetPath, signal);
      } catch (failure) {
        throw new EphemeralVolumeLeft(volumeId, error, failure);
      }
      throw error;
    }
  }

  async #takeAway(volumeId: VolumeId, targetPath: string, signal: AbortSignal): Promise<void> {
    await this.#mounts.unmount(targetPath, signal);
    await removeMountPoint(targetPath);
    this.#forget(volumeId, targetPath);
    await this.#ephemeral.removeIfEphemeral(volumeId, signal);
  }

  /** Stages first if the volume is not staged or was unmounted since, which the caller may not know. */
  async #show(publication: Publication, signal: AbortSignal): Promise<void> {
    const { volumeId, targetPath: target, stagingPath, readOnly, use, encryption } = publication;
    const { pool, volume: held } = this.#usable(volumeId);
    await using _ = await this.#hold(held);
    const volume = await this.#readable(pool, held, encryption, signal);
    if (use.kind === 'block') {
      if (volume === held) await this.#encrypted.mustBePlain(held, signal);
      if (!volume.tags.includes(rawTag)) await pool.addTags(volumeId, [rawTag], signal);
      await createMountFile(target);
      await this.#mounts.bind({ source: volume.devicePath, target, readOnly }, signal);
    } else if (stagingPath === undefined) {
      await this.#filesystems.mountAt(target, pool, volume, use, signal);
      if (readOnly) await this.#mounts.protect(target, signal);
    } else {
      const isStaged = await this.#filesystems.isAt(stagingPath, volume, use);
      const mount = () => this.#filesystems.mountAt(stagingPath, pool, volume, use, signal);
      if (!isStaged) await this.#preparing(volumeId, mount);
      await createMountDirectory(target);
      await this.#mounts.bind({ source: stagingPath, target, readOnly }, signal);
    }
  }

  async #preparing(volumeId: VolumeId, work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      this.#onPrepared?.(volumeId, error);
      throw error;
    }
    this.#onPrepared?.(volumeId);
  }

  /** A published raw device needs nothing, even if the caller does not say that it is one. */
  async #growFilesystem(volume: Volume, { volumePath, stagingPath }: Growth, signal: AbortSignal): Promise<void> {
    for (const path of stagingPath ? [stagingPath, volumePath] : [volumePath]) {
      const mount = await this.#mounts.holding(path, volume.devicePath);
      const filesystem = filesystemNamed(mount?.filesystem);
      if (!mount || !filesystem) continue;
      return this.#preparing(volume.id, async () => {
        if (mount.options.includes('ro')) throw new CannotGrowReadOnly(volume.id, path);
        await this.#grower.grow(volume, filesystem, path, signal);
      });
    }
    if ((await kindOfPath(volume.id, volumePath)) === 'filesystem') throw new NotAtPath(volume.id, volumePath);
  }

  async #mustBeAlone(volumeId: VolumeId, targetPath: string): Promise<void> {
    for (const other of this.#targets.get(volumeId) ?? []) {
      if (other !== targetPath && (await this.#mounts.at(other))) throw new UsedByOther(volumeId, other);
    }
  }

  #forget(volumeId: VolumeId, targetPath: string): void {
    const targets = this.#targets.get(volumeId);
    targets?.delete(targetPath);
    if (targets?.size === 0) this.#targets.delete(volumeId);
  }
}

function isDecrypted(volume: Volume, encryption?: Encryption): boolean {
  return encryption?.isRequested === true || isEncrypted(volume);
}

export class CannotGrowReadOnly extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(id: VolumeId, path: string) {
    super(`the filesystem of volume ${id} is mounted read-only at ${path} and cannot grow; mount it writable first`);
  }
}

/** With this code the kubelet treats the volume as possibly published and unpublishes it. */
export class EphemeralVolumeLeft extends MoorageError {
  readonly code = 'Unavailable';

  constructor(id: VolumeId, error: unknown, failure: unknown) {
    super(`${messageOf(error)}; and cannot remove ephemeral volume ${id} yet: ${messageOf(failure)}`);
  }
}

export class VolumeRetired extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(id: VolumeId) {
    super(
      `volume ${id} is about to be removed: the claim that it was created for is gone, and it was never used; ` +
        'a claim that is created again gets a new volume',
    );
  }
}

/** ReadWriteOncePod. */
export class UsedByOther extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(id: VolumeId, target: string) {
    super(`volume ${id} is for one pod at a time and is already published at ${target}; wait until that pod is gone`);
  }
}
