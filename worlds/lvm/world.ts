import { truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { run } from '../host/processes.ts';

/** A place to run a command with real LVM on its own disks. */
export interface World {
  /** Runs a command in the checkout and passes on its output as it arrives; resolves with its exit code. */
  run(argv: readonly string[], env: Readonly<Record<string, string>>, print: (piece: Buffer) => void): Promise<number>;
  /** The world's own last log lines, for a failure. */
  lastWords(): Promise<string>;
  close(): Promise<void>;
}

export const diskCount = 4;
const diskBytes = 4 * 2 ** 30;
const rootDiskBytes = 2 ** 30;

/** Empty sparse image files, one per disk. */
export async function createDisks(dir: string): Promise<string[]> {
  const images = Array.from({ length: diskCount }, (_, index) => join(dir, `disk${index}`));
  for (const image of images) await createDisk(image, diskBytes);
  return images;
}

/** An image file for the root filesystem of a machine that boots systemd. */
export async function createRootDisk(dir: string): Promise<string> {
  const image = join(dir, 'root-disk');
  await createDisk(image, rootDiskBytes);
  await run(['/sbin/mkfs.ext4', '-q', image], { timeoutMs: 60_000 });
  return image;
}

async function createDisk(image: string, sizeBytes: number): Promise<void> {
  await writeFile(image, '');
  await truncate(image, sizeBytes);
}

/** How a world describes itself to the tests inside; `inside.ts` reads it. */
export function worldEnvironment(disks: readonly string[], prefix: string): Record<string, string> {
  return { LVM_TEST_DISKS: disks.join(' '), LVM_TEST_PREFIX: prefix, DM_DISABLE_UDEV: '1' };
}
