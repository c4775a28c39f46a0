import { mkdtempSync, rmSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { systemClock } from '../../src/base/clock.ts';
import type { Run } from '../../src/base/exec.ts';
import type { Log } from '../../src/base/log.ts';
import { parseMountInfo } from '../../src/base/mountinfo.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import type { ErasePolicy } from '../../src/engine/config/device-classes.ts';
import { Eraser } from '../../src/engine/erase/eraser.ts';
import { Erasures } from '../../src/engine/erase/erasures.ts';
import { FilePool } from '../../src/engine/file/file-pool.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { run } from '../../worlds/host/processes.ts';
import { undoAfter } from '../../worlds/lvm/undo.ts';

const timeoutMs = 180_000;

/** For the `skip` option of a test. */
export const whyNotRoot = process.getuid?.() === 0 ? false : 'needs root, for loop devices and mounts';

/** A directory for one test. After the test, all mounts and loop devices below it are removed, after later cleanups. */
export async function scratchDirectory(t: TestContext): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'moorage-native-'));
  undoAfter(t, async () => {
    await release(directory);
    await rm(directory, { recursive: true });
  });
  return directory;
}

/** A directory on its own new filesystem, large enough for any kind. */
export async function scratchFilesystem(t: TestContext, filesystem: string, sizeMb = 1024): Promise<string> {
  const directory = await scratchDirectory(t);
  const image = join(directory, 'disk.img');
  const mountpoint = join(directory, 'mounted');
  await writeFile(image, '');
  await truncate(image, sizeMb * 1024 ** 2);
  await sh(`mkfs.${filesystem} -q ${image}`);
  await mkdir(mountpoint);
  await sh(`mount -o loop ${image} ${mountpoint}`);
  return mountpoint;
}

interface FilePoolOfTest {
  readonly spareBytes?: bigint;
  readonly erase?: ErasePolicy;
  readonly runs?: Run;
  readonly log?: Log;
}

/** The records of all pools of this process, as on a node's own disk. */
export const stateDirectory = mkdtempSync(join(tmpdir(), 'moorage-state-'));
process.on('exit', () => rmSync(stateDirectory, { recursive: true }));

/** They hold their devices. */
const openPools = new Map<string, FilePool>();

/** Like a restart: stops the pool that used the directory before. */
export async function openFilePool(path: string, options: FilePoolOfTest = {}): Promise<FilePool> {
  const { spareBytes = 0n, erase = { kind: 'none' }, runs = run, log = silentLog } = options;
  const deviceClass = { type: 'file', name: 'files', isDefault: true, spareBytes, path, erase } as const;
  const erasures = new Erasures({ eraser: new Eraser(runs), clock: systemClock, log: silentLog });
  await openPools.get(path)?.stop(0);
  const pool = await FilePool.open(
    { deviceClass, erasures, stateDirectory, run: runs, log },
    new AbortController().signal,
  );
  openPools.set(path, pool);
  return pool;
}

export async function sh(script: string): Promise<string> {
  return (await run(['sh', '-ec', script], { timeoutMs })).stdout.trim();
}

/** The loop devices whose files are below the directory. */
export async function loopDevicesBelow(directory: string): Promise<string[]> {
  const lines = (await sh('losetup --list --noheadings --output NAME,BACK-FILE')).split('\n');
  return lines.filter((line) => line.includes(directory)).map((line) => line.split(' ')[0] ?? '');
}

/** A loop device that mount created is detached with the mount, perhaps between listing and detaching. */
function detach(loop: string): string {
  return `losetup -d ${loop} || [ -z "$(losetup --noheadings --output BACK-FILE ${loop})" ]`;
}

async function release(directory: string): Promise<void> {
  for (const [path, pool] of openPools) {
    if (!`${path}/`.startsWith(`${directory}/`)) continue;
    openPools.delete(path);
    await pool.stop(0);
  }
  // Detaching ends, and with it the use of the filesystem below, only when nobody has the device open any more.
  await eventually(`nothing below ${directory} is mounted`, async () => {
    // Innermost first: a pool's volumes before the filesystem of the pool.
    for (;;) {
      for (const loop of await loopDevicesBelow(directory)) await sh(detach(loop));
      const mounts = parseMountInfo(await readFile('/proc/self/mountinfo', 'utf8'));
      const last = mounts.findLast((mount) => mount.target.startsWith(`${directory}/`));
      if (!last) return true;
      await sh(`umount '${last.target}'`);
    }
  });
}
