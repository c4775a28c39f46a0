import { mkdir, mkdtemp, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { systemClock } from '../../src/base/clock.ts';
import { run } from '../../src/base/exec.ts';
import { silentLog } from '../../src/base/log.ts';
import { Eraser } from '../../src/storage/eraser.ts';
import { Erasures } from '../../src/storage/erasures.ts';
import { parseMountInfo } from '../../src/storage/mountinfo.ts';

const timeoutMs = 60_000;

/** For the `skip` option of a test. */
export const whyNotRoot = process.getuid?.() === 0 ? false : 'needs root, for loop devices and mounts';

/** A directory for one test; afterwards all that was mounted or attached below it is gone. */
export async function scratchDirectory(t: TestContext): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'moorage-native-'));
  t.after(async () => {
    await release(directory);
    await rm(directory, { recursive: true });
  });
  return directory;
}

/** A directory on a new filesystem of its own, large enough for any kind. */
export async function scratchFilesystem(t: TestContext, filesystem: string): Promise<string> {
  const directory = await scratchDirectory(t);
  const image = join(directory, 'disk.img');
  const mountpoint = join(directory, 'mounted');
  await writeFile(image, '');
  await truncate(image, 1024 ** 3);
  await sh(`mkfs.${filesystem} -q ${image}`);
  await mkdir(mountpoint);
  await sh(`mount -o loop ${image} ${mountpoint}`);
  return mountpoint;
}

/** For the pools of a test. */
export function newErasures(): Erasures {
  return new Erasures({ eraser: new Eraser(run), clock: systemClock, log: silentLog });
}

export async function sh(script: string): Promise<string> {
  return (await run(['sh', '-ec', script], { timeoutMs })).stdout.trim();
}

/** The loop devices whose files are below the directory. */
export async function loopDevicesBelow(directory: string): Promise<string[]> {
  const lines = (await sh('losetup --list --noheadings --output NAME,BACK-FILE')).split('\n');
  return lines.filter((line) => line.includes(directory)).map((line) => line.split(' ')[0] ?? '');
}

async function release(directory: string): Promise<void> {
  // Innermost first: a pool's volumes before the filesystem that the pool itself lies on.
  for (;;) {
    const mounts = parseMountInfo(await readFile('/proc/self/mountinfo', 'utf8'));
    const below = mounts.filter((mount) => mount.target.startsWith(`${directory}/`));
    for (const loop of await loopDevicesBelow(directory)) await sh(`losetup -d ${loop}`);
    const last = below.at(-1);
    if (!last) return;
    await sh(`umount '${last.target}'`);
  }
}
