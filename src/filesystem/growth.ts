import type { Command, Run } from '../base/exec.ts';
import type { Volume } from '../engine/pool.ts';
import type { Filesystem } from './filesystem.ts';
import type { ReadSuperblock } from './superblock.ts';

const timeoutMs = 120_000;

/** Each of them works on a filesystem that is mounted and in use, and does nothing where nothing is to be done. */
function growth(filesystem: Filesystem, devicePath: string, mountedAt: string): Command {
  switch (filesystem) {
    case 'ext4':
      return ['resize2fs', devicePath];
    case 'xfs':
      return ['xfs_growfs', '-d', mountedAt];
    case 'btrfs':
      return ['btrfs', 'filesystem', 'resize', 'max', mountedAt];
  }
}

/** Makes mounted filesystems as large as their devices. They never shrink. */
export class FilesystemGrower {
  readonly #run: Run;
  readonly #superblock: ReadSuperblock;

  constructor({ run, superblock }: { readonly run: Run; readonly superblock: ReadSuperblock }) {
    this.#run = run;
    this.#superblock = superblock;
  }

  /**
   * Runs no command if the filesystem reaches to the end of its device already. While it is mounted its superblock may
   * be behind, but never ahead; then, and for a rest that is too small to be used, there is a command that does nothing.
   */
  async grow(volume: Volume, filesystem: Filesystem, mountedAt: string, signal: AbortSignal): Promise<void> {
    const { devicePath, sizeBytes } = volume;
    const found = await this.#superblock(devicePath, filesystem, signal);
    if (found && found !== 'busy' && found.sizeBytes >= sizeBytes) return;
    await this.#run(growth(filesystem, devicePath, mountedAt), { timeoutMs, signal });
  }
}
