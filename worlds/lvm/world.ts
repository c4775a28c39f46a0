import { truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/** Where a command runs with real LVM on disks of its own. */
export interface World {
  /** Runs a command in the checkout, with what it prints handed on as it comes; resolves with its exit code. */
  run(argv: readonly string[], env: Readonly<Record<string, string>>, print: (piece: Buffer) => void): Promise<number>;
  /** What the world itself has to say about a failure. */
  lastWords(): Promise<string>;
  close(): Promise<void>;
}

export const diskCount = 4;
const diskBytes = 4 * 2 ** 30;

/** Empty sparse image files, one a disk. */
export async function makeDisks(dir: string): Promise<string[]> {
  const images = Array.from({ length: diskCount }, (_, index) => join(dir, `disk${index}`));
  for (const image of images) {
    await writeFile(image, '');
    await truncate(image, diskBytes);
  }
  return images;
}

/** How a world tells the tests inside about itself; `inside.ts` reads it. */
export function worldEnvironment(disks: readonly string[], prefix: string): Record<string, string> {
  return { LVM_TEST_DISKS: disks.join(' '), LVM_TEST_PREFIX: prefix, DM_DISABLE_UDEV: '1' };
}
