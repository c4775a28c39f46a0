/**
 * node bench/moves/inside.ts
 *
 * Measures rounds of volumes of several sizes with several amounts of changes, in a machine with real LVM. Progress goes
 * to standard error; the results are one JSON object on standard output.
 */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { systemClock } from '../../src/base/clock.ts';
import { run } from '../../src/base/exec.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import type { LvmClass } from '../../src/engine/config/device-classes.ts';
import { VolumeGroups } from '../../src/engine/lvm/volume-groups.ts';
import type { ServedPool } from '../../src/engine/pool.ts';
import { poolOpener } from '../../src/engine/storage-engine.ts';
import { newMoveKey } from '../../src/node/mover/move-key.ts';
import { Mover } from '../../src/node/mover/mover.ts';
import { command, disks } from '../../worlds/lvm/inside.ts';
import type { Cost } from './moves-bench.ts';

const mebibyte = 1024 ** 2;
const { signal } = new AbortController();
const moveUid = '00000000-0000-4000-8000-000000000001';
const say = (line: string) => process.stderr.write(`${line}\n`);

const common = {
  isDefault: false,
  spareBytes: 0n,
  erase: { kind: 'none' as const },
  stripes: 0,
  stripeSize: undefined,
  lvcreateOptions: [],
};
const thinPool = { name: 'pool', overprovisionRatio: 10, maxDataPercent: 95, maxMetadataPercent: 95 };
const classes: readonly LvmClass[] = [
  { ...common, name: 'thick', type: 'thick', volumeGroup: 'source', snapshots: 'none' },
  { ...common, name: 'thin', type: 'thin', volumeGroup: 'source', thinPool },
];
const targetClass: LvmClass = { ...common, name: 'target', type: 'thin', volumeGroup: 'target', thinPool };

const groups = new VolumeGroups({ command: ['lvm'], run, env: process.env, clock: systemClock, log: silentLog });
const open = poolOpener({ groups, stateDirectory: '/run', run, clock: systemClock, log: silentLog });
const mover = new Mover({ port: 0, clock: systemClock, log: silentLog });
const [source, target] = [await newMoveKey(Date.now()), await newMoveKey(Date.now())];

const [first = '', second = '', third = ''] = disks();
await command('vgcreate', '--yes', 'source', first, second);
await command('vgcreate', '--yes', 'target', third);
for (const group of ['source', 'target']) {
  await command('lvcreate', '--yes', '--type', 'thin-pool', '--size', '3g', '--name', 'pool', group);
}

const costs: Cost[] = [];
for (const deviceClass of classes) {
  const [pool, targets] = [await openPool(deviceClass), await openPool(targetClass)];
  for (const [sizeMib, changes] of [
    [128, [16]],
    [512, [0, 4, 16, 64]],
    [2048, [16]],
  ] as const) {
    say(`${deviceClass.name}, ${sizeMib} MiB`);
    costs.push(...(await measure(pool, targets, sizeMib, changes)));
  }
  await pool.stop(0);
  await targets.stop(0);
}
await mover.stop();
await groups.stop();
console.log(JSON.stringify(costs));

async function openPool(deviceClass: LvmClass): Promise<ServedPool> {
  return open({ deviceClass, optionClasses: [] }, signal);
}

/** One volume: a first round, and then one after each amount of changes. */
async function measure(
  pool: ServedPool,
  targets: ServedPool,
  sizeMib: number,
  changes: readonly number[],
): Promise<Cost[]> {
  const sizeBytes = BigInt(sizeMib * mebibyte);
  const { devicePath } = await pool.create({ id: 'data', sizeBytes, tags: [] }, signal);
  await targets.create({ id: 'copy', sizeBytes, tags: [] }, signal);
  await overwrite(devicePath, 64, 0);
  const tracking = pool.trackChanges('data');
  const offered = await mover.offer(moveUid, { tracking, tags: () => [], own: source, peerCertificate: target.cert });
  const keys = { own: target, peerCertificate: source.cert };
  const pull = async () =>
    mover.pull(
      { ...{ moveUid, host: '127.0.0.1', port: offered.port, kind: 'next' }, ...keys, pool: targets, volumeId: 'copy' },
      signal,
    );
  const kind = pool.name;
  const costs: Cost[] = [];
  const note = (
    { sentBytes, durationMs }: { readonly sentBytes: number; readonly durationMs: number },
    changedMib?: number,
  ) => costs.push({ kind, sizeMib, changedMib, sentMib: sentBytes / mebibyte, ms: Math.round(durationMs) });
  note(await pull());
  for (const changedMib of changes) {
    await overwrite(devicePath, changedMib, 1);
    note(await pull(), changedMib);
  }
  await offered[Symbol.asyncDispose]();
  await tracking.end(signal);
  await pool.remove('data', signal);
  await targets.remove('copy', signal);
  return costs;
}

/** Random data in blocks of 1 MiB, each at a multiple of `1 + gap` MiB. */
async function overwrite(path: string, count: number, gap: number): Promise<void> {
  const script = `for i in $(seq 0 ${count - 1}); do
    dd if=/dev/urandom of=${path} bs=1M count=1 seek=$((i * ${1 + gap})) conv=notrunc status=none; done; sync ${path}`;
  const shell = spawn('sh', ['-ec', count > 0 ? script : 'true'], { stdio: ['ignore', 'ignore', 'inherit'] });
  await once(shell, 'exit');
}
