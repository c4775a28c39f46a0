import { chmod, mkdir, opendir, rm, rmdir, stat, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { KeyedLock } from '../base/keyed-lock.ts';
import type { NodeVolumes, Publication } from '../csi/node-volumes.ts';
import type { FilesystemUse } from '../csi/volume-use.ts';
import type { Formatter } from '../storage/filesystem.ts';
import type { Mounts } from '../storage/mounts.ts';
import type { Pool } from '../storage/pool.ts';
import type { Pools } from '../storage/pools.ts';
import { poolHolding, VolumeNotHere } from './pool-holding.ts';

interface Collaborators {
  readonly pools: Pick<Pools, 'all'>;
  readonly formatter: Pick<Formatter, 'ensure'>;
  readonly mounts: Pick<Mounts, 'mount' | 'bind' | 'unmount'>;
}

/** Shows this node's volumes to its pods. What happens to a volume happens one after the other; volumes do not wait for each other. */
export class PublishedVolumes implements Pick<NodeVolumes, 'publish' | 'unpublish'> {
  readonly #pools: Collaborators['pools'];
  readonly #formatter: Collaborators['formatter'];
  readonly #mounts: Collaborators['mounts'];
  readonly #lock = new KeyedLock();

  constructor({ pools, formatter, mounts }: Collaborators) {
    this.#pools = pools;
    this.#formatter = formatter;
    this.#mounts = mounts;
  }

  async publish(publication: Publication, signal: AbortSignal): Promise<void> {
    const { volumeId, use } = publication;
    await this.#lock.run(volumeId, signal, async () => {
      const pool = poolHolding(this.#pools, volumeId);
      if (!pool) throw new VolumeNotHere(volumeId);
      if (use.kind === 'block') await this.#publishBlock(pool, publication, signal);
      else await this.#publishFilesystem(pool, publication, use, signal);
    });
  }

  async unpublish(volumeId: string, targetPath: string, signal: AbortSignal): Promise<void> {
    await this.#lock.run(volumeId, signal, async () => {
      await this.#mounts.unmount(targetPath, signal);
      await removeMountPoint(targetPath);
    });
  }

  async #publishFilesystem(
    pool: Pool,
    { volumeId, targetPath, readOnly }: Publication,
    { filesystem, mountFlags }: FilesystemUse,
    signal: AbortSignal,
  ): Promise<void> {
    const { devicePath } = await this.#formatter.ensure(pool, volumeId, filesystem, signal);
    await mkdir(targetPath, { recursive: true });
    // A copy of a volume has the uuid of the original, which xfs would not mount beside it.
    const options = [...mountFlags, ...(filesystem === 'xfs' ? ['nouuid'] : [])];
    await this.#mounts.mount({ source: devicePath, target: targetPath, filesystem, options, readOnly }, signal);
    if (!readOnly) await openToAll(targetPath);
  }

  async #publishBlock(pool: Pool, { volumeId, targetPath, readOnly }: Publication, signal: AbortSignal): Promise<void> {
    const volume = pool.get(volumeId);
    if (!volume) throw new VolumeNotHere(volumeId);
    await mkdir(dirname(targetPath), { recursive: true });
    await writeFile(targetPath, '', { flag: 'a' });
    await this.#mounts.bind({ source: volume.devicePath, target: targetPath, readOnly }, signal);
  }
}

/** Whoever the pod runs as can write to a fresh filesystem. Once somebody has used or changed it, its mode is theirs. */
async function openToAll(root: string): Promise<void> {
  const { mode, uid } = await stat(root);
  if ((mode & 0o7777) !== 0o755 || uid !== 0) return;
  for await (const { name } of await opendir(root)) if (name !== 'lost+found') return;
  await chmod(root, 0o2777);
}

/** Only what we made, an empty directory or an empty file: never what is in it. */
async function removeMountPoint(targetPath: string): Promise<void> {
  try {
    if ((await stat(targetPath)).isDirectory()) await rmdir(targetPath);
    else await rm(targetPath);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
}
