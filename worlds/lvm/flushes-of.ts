import { readFile } from 'node:fs/promises';
import { basename } from 'node:path';

/** How many times the disk was told to flush its write cache. */
export async function flushesOf(disk: string): Promise<number> {
  const counters = (await readFile(`/sys/class/block/${basename(disk)}/stat`, 'utf8')).trim().split(/\s+/);
  return Number(counters[15]);
}
