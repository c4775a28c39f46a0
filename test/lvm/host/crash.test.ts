import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { build } from 'esbuild';
import { stringify } from 'yaml';
import { type LvmWorld, lvmWorld } from '../../../worlds/lvm/lvm-world.ts';
import { MachineOff } from '../../../worlds/machine/errors.ts';
import { quote } from '../../../worlds/machine/quote.ts';
import { secret } from './crash/operations.ts';
import { rounds } from './crash/plan.ts';

/** Small, so that all of it can be searched for erased data. */
const erasedGroupMib = 128;

const config = {
  'lvm-command-prefix': ['lvm'],
  'device-classes': [
    { name: 'thick', 'volume-group': 'vg', 'spare-gb': 0, snapshots: 'copy-on-write' },
    { name: 'thin', type: 'thin', 'volume-group': 'vg', 'thin-pool': { name: 'pool', 'overprovision-ratio': 10 } },
    { name: 'erased', 'volume-group': 'secrets', 'spare-gb': 0, erase: 'shred', 'erase-passes': 1 },
    { name: 'file', type: 'file', path: '/volumes', 'spare-gb': 0 },
  ],
};

test('after a power cut at any time, acknowledged changes are there and the others can be retried', async (t) => {
  const world = await lvmWorld(t);
  const [disk = '', secretDisk = '', fileDisk = ''] = world.disks;
  await world.sh(`
    vgcreate -y vg ${disk}
    lvcreate -y --type thin-pool -L 1g -n pool vg
    pvcreate -y --setphysicalvolumesize ${erasedGroupMib}m ${secretDisk}
    vgcreate -y secrets ${secretDisk}
    mkfs.xfs -q -K ${fileDisk}`);
  const bringUp = () => world.machine.sh(`vgchange --activate y; mkdir /volumes; mount ${fileDisk} /volumes`); // vgchange fails where there is a ghost
  await bringUp();
  const configPath = join(world.machine.dir, 'lvmd.yaml');
  await writeFile(configPath, stringify(config));
  await bundle(join(import.meta.dirname, 'crash', 'worker.ts'), workerPath(world));
  const free = () => world.sh('vgs --noheadings -o vg_name,vg_free_count | xargs');
  const freeAtFirst = await free();

  let acknowledged: string[] = [];
  for (const [number, { delayMs }] of rounds.entries()) {
    let cut: NodeJS.Timeout | undefined;
    acknowledged = await work(world, configPath, number, acknowledged, () => {
      cut = setTimeout(() => void world.powerLoss(), delayMs);
    });
    clearTimeout(cut); // it finished its work before the cut, which must not hit the next boot
    await world.powerLoss();
    await world.machine.start();
    await bringUp();
  }
  await work(world, configPath, rounds.length, acknowledged, () => undefined);

  assert.equal(await free(), freeAtFirst, 'no space is lost');
  assert.equal(await world.sh('lvs --noheadings -o lv_name | xargs'), 'pool', 'nothing is left behind');
  assert.equal(await world.sh('ls /volumes'), '', 'nothing is left behind in the directory');
  assert.equal(
    await world.sh(`head -c ${erasedGroupMib}M ${secretDisk} | grep -c '${secret}' || true`),
    '0',
    'erased data cannot be found on the disk',
  );
});

/**
 * Lets the worker check the previous round and run its own; returns the volumes that it acknowledged.
 * It may end in the middle of a round, but not before the check.
 */
async function work(
  world: LvmWorld,
  configPath: string,
  number: number,
  acknowledged: readonly string[],
  onBegin: () => void,
): Promise<string[]> {
  let printed = '';
  const command = [process.execPath, workerPath(world), configPath, String(number), ...acknowledged]
    .map(quote)
    .join(' ');
  const onStdout = (piece: Buffer) => {
    const begun = printed.includes('begin\n');
    printed += piece.toString();
    if (!begun && printed.includes('begin\n')) onBegin();
  };
  try {
    await world.sh(command, { onStdout });
  } catch (error) {
    if (!(error instanceof MachineOff)) throw error;
  }
  assert.match(printed, /^verified\n/, `round ${number - 1} was checked`);
  return [...printed.matchAll(/^ack (\S+)\n/gm)].map(([, id = '']) => id);
}

function workerPath({ machine }: LvmWorld): string {
  return join(machine.dir, 'worker.mjs');
}

/** Bundled into one file: it is started after each boot, when nothing is in the page cache. */
async function bundle(source: string, outfile: string): Promise<void> {
  const banner = "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);";
  await build({
    entryPoints: [source],
    outfile,
    bundle: true,
    platform: 'node',
    format: 'esm',
    banner: { js: banner },
  });
}
