import { open, readdir, readFile, rename, rm, stat, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import * as v from 'valibot';
import type { Run } from '../../base/exec.ts';
import type { Capacity, VolumeId } from '../pool.ts';
import { replaceFile, syncDirectory } from './durable.ts';

const imageSuffix = '.img';
/** Our own names only: whatever else lies in the directory is not ours to clear away. */
const unfinished = /\.(img|json)\.new$/;
const timeoutMs = 300_000; // some filesystems write all of a preallocated file

const labelSchema = v.object({ tags: v.array(v.string()) });

/**
 * The directory of a file pool. A volume `v` is `v.img`, which holds its data, and `v.json`, which holds its tags.
 * It exists as soon as `v.img` has its name, and that comes last; it is gone as soon as `v.img` is, and that comes first.
 */
export class VolumeFiles {
  readonly #directory: string;
  readonly #run: Run;

  constructor(directory: string, run: Run) {
    this.#directory = directory;
    this.#run = run;
  }

  imagePath(id: VolumeId): string {
    return join(this.#directory, `${id}${imageSuffix}`);
  }

  async list(): Promise<VolumeId[]> {
    const names = await readdir(this.#directory);
    return names.filter((name) => name.endsWith(imageSuffix)).map((name) => name.slice(0, -imageSuffix.length));
  }

  async has(id: VolumeId): Promise<boolean> {
    return (await this.list()).includes(id);
  }

  /** Space only: nothing is written, and what an earlier file left on the disk reads as zeros. */
  async make(id: VolumeId, sizeBytes: bigint, tags: readonly string[], signal: AbortSignal): Promise<void> {
    const draft = `${this.imagePath(id)}.new`;
    await rm(draft, { force: true });
    try {
      await this.#allocate(draft, sizeBytes, signal);
      await this.writeTags(id, tags);
      await rename(draft, this.imagePath(id));
    } catch (error) {
      await rm(draft, { force: true });
      throw error;
    }
    await syncDirectory(this.#directory);
  }

  async grow(id: VolumeId, sizeBytes: bigint, signal: AbortSignal): Promise<void> {
    await this.#allocate(this.imagePath(id), sizeBytes, signal);
  }

  async remove(id: VolumeId): Promise<void> {
    await rm(this.imagePath(id), { force: true });
    await syncDirectory(this.#directory);
    await rm(this.#labelPath(id), { force: true });
  }

  /** What a crash cut short: it never had its name, so nobody was ever given it. */
  async removeUnfinished(): Promise<void> {
    const names = await readdir(this.#directory);
    await Promise.all(
      names.filter((name) => unfinished.test(name)).map((name) => rm(join(this.#directory, name), { force: true })),
    );
  }

  async sizeBytes(id: VolumeId): Promise<bigint> {
    return (await stat(this.imagePath(id), { bigint: true })).size;
  }

  async tags(id: VolumeId): Promise<readonly string[]> {
    return v.parse(labelSchema, JSON.parse(await readFile(this.#labelPath(id), 'utf8'))).tags;
  }

  async writeTags(id: VolumeId, tags: readonly string[]): Promise<void> {
    await replaceFile(this.#labelPath(id), `${JSON.stringify({ tags })}\n`);
  }

  /** Of the whole filesystem, which others may use too. */
  async space(): Promise<Capacity> {
    const { bsize, blocks, bavail } = await statfs(this.#directory, { bigint: true });
    return { sizeBytes: blocks * bsize, freeBytes: bavail * bsize };
  }

  async #allocate(path: string, sizeBytes: bigint, signal: AbortSignal): Promise<void> {
    await this.#run(['fallocate', '--length', String(sizeBytes), path], { timeoutMs, signal });
    await using file = await open(path, 'r');
    await file.sync();
  }

  #labelPath(id: VolumeId): string {
    return join(this.#directory, `${id}.json`);
  }
}
