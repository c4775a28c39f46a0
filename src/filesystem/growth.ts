import type { Run } from '../base/exec.ts';
import type { Volume } from '../engine/pool.ts';
import type { Filesystem } from './filesystem.ts';
import type { ReadSuperblock } from './probe.ts';

const timeoutMs = 120_000;

/** Grows mounted filesystems to the size of their devices. They never shrink. */
export class FilesystemGrower {
  readonly #run: Run;
  readonly #superblock: ReadSuperblock;

  constructor({ run, superblock }: { readonly run: Run; readonly superblock: ReadSuperblock }) {
    this.#run = run;
    this.#superblock = superblock;
  }

  /**
   * Runs no command if the filesystem already reaches the end of its device. The superblock of a mounted filesystem may be
   * behind, but never ahead: then, and if the rest is too small to be used, the command runs and does nothing.
   */
  async grow(volume: Volume, filesystem: Filesystem, mountedAt: string, signal: AbortSignal): Promise<void> {
    const { devicePath, sizeBytes } = volume;
    const found = await this.#superblock(devicePath, filesystem, signal);
    if (found && found !== 'busy' && found.sizeBytes >= sizeBytes) return;
    await this.#run(filesystem.growth(devicePath, mountedAt), { timeoutMs, signal });
  }
}
