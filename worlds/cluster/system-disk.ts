import { mkdir, rm, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { cached, keyOf } from '../host/cache.ts';
import { execute } from '../host/processes.ts';
import { stage } from '../host/progress.ts';
import { Machine } from '../machine/machine.ts';
import type { MachineFiles } from '../machine/machine-files.ts';
import type { Binaries } from './binaries.ts';
import { pauseImage, writeImages } from './images.ts';
import { ensureBaseLayers, writeBaseImage } from './moorage-image.ts';
import { writeSidecarImages } from './sidecar-images.ts';

const sizeBytes = 4 * 2 ** 30;
const busybox = '/bin/busybox';
export const guestScripts = join(import.meta.dirname, 'guest');

/** The template of every node's system disk: containerd's store with the images. Created once. */
export async function ensureSystemDisk(files: MachineFiles, sidecars: Binaries['sidecars']): Promise<string> {
  const scripts = ['system-disk.sh', 'containerd.sh', 'prepare-template.sh'].map((name) => join(guestScripts, name));
  const sources = ['images.ts', 'sidecar-images.ts', 'program-image.ts'].map((name) => join(import.meta.dirname, name));
  const base = await ensureBaseLayers();
  const contents = [...Object.values(sidecars), ...base.map(({ diffId }) => diffId)];
  const key = await keyOf([...scripts, ...sources, busybox, '/usr/bin/containerd'], contents);
  const dir = await cached(`system-disk-${key}`, (draft) =>
    stage('Preparing the nodes’ system disk (once)', async () => {
      const images = join(draft, 'images');
      await mkdir(images);
      await writeImages(busybox, join(images, 'busybox.tar'));
      await writeSidecarImages(images, sidecars);
      await writeBaseImage(base, join(images, 'base.tar'));
      await fill(draft, files);
      await rm(images, { recursive: true });
    }),
  );
  return join(dir, 'disk');
}

/** Copies the template for a node: only written blocks take space. */
export async function copySystemDisk(template: string, disk: string): Promise<void> {
  await execute('cp', ['--sparse=always', '--reflink=auto', template, disk]);
}

export async function createDisk(disk: string, size: number): Promise<void> {
  await writeFile(disk, '');
  await truncate(disk, size);
}

/** Imports the images of the directory. */
async function fill(dir: string, files: MachineFiles): Promise<void> {
  const disk = join(dir, 'disk');
  await createDisk(disk, sizeBytes);
  const env = { NODE_DIR: dir, PAUSE_IMAGE: pauseImage };
  const machine = await Machine.create({
    files,
    dir: join(dir, 'machine'),
    name: 'template',
    memoryMb: 512,
    disks: [disk],
    shares: [dir],
    env,
  });
  await machine.start();
  const result = await machine.run(['sh', join(guestScripts, 'prepare-template.sh')], { timeoutMs: 300_000 });
  await machine.powerOff();
  if (result.exitCode !== 0) throw new Error(`cannot fill the system disk:\n${result.stdout}${result.stderr}`);
  await rm(join(dir, 'machine'), { recursive: true });
}
