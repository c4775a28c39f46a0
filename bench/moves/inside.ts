/**
 * node bench/moves/inside.ts
 *
 * Measures rounds of volumes of several sizes with several amounts of changes, and the pause at the end of a move, in a
 * machine with real LVM. Progress goes
 * to standard error; the results are one JSON object on standard output.
 */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { systemClock } from '../../src/base/clock.ts';
import { run } from '../../src/base/exec.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import type { RoundKind } from '../../src/engine/changes/change-tracking.ts';
import type { LvmClass } from '../../src/engine/config/device-classes.ts';
import { VolumeGroups } from '../../src/engine/lvm/volume-groups.ts';
import { positionKey, receivingKey } from '../../src/engine/names-and-tags.ts';
import type { ServedPool } from '../../src/engine/pool.ts';
import { poolOpener } from '../../src/engine/storage-engine.ts';
import { newMoveKey } from '../../src/node/mover/move-key.ts';
import { Mover, type RoundResult } from '../../src/node/mover/mover.ts';
import { command, disks } from '../../worlds/lvm/inside.ts';
import type { Cost, LvmResults, Pause } from './moves-bench.ts';
import { SocatSide } from './socat.ts';

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
const pauses: Pause[] = [];
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
  for (const changedMib of [4, 16, 64, 128]) {
    say(`${deviceClass.name}, pause with ${changedMib} MiB`);
    pauses.push(await pauseOf(pool, targets, changedMib));
  }
  await pool.stop(0);
  await targets.stop(0);
}
await mover.stop();
await groups.stop();
console.log(JSON.stringify({ costs, pauses } satisfies LvmResults));

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
  await using move = await moveOf(pool, targets, sizeMib);
  const note = ({ sentBytes, durationMs }: RoundResult, changedMib?: number) =>
    costs.push({
      ...{ kind: pool.name, sizeMib, changedMib },
      ...{ sentMib: sentBytes / mebibyte, ms: Math.round(durationMs) },
    });
  const costs: Cost[] = [];
  note(await move.pull('next'));
  for (const changedMib of changes) {
    await overwrite(move.devicePath, changedMib, 1);
    note(await move.pull('next'), changedMib);
  }
  return costs;
}

/** What both agents do from the closed source on, without the controller and the kubelet. */
async function pauseOf(pool: ServedPool, targets: ServedPool, changedMib: number): Promise<Pause> {
  await using move = await moveOf(pool, targets, 512);
  await move.pull('next');
  await overwrite(move.devicePath, changedMib, 1);
  const started = performance.now();
  await pool.setAccess('data', 'ro', signal);
  const { durationMs } = await move.pull('last');
  await targets.removeTags('copy', [receivingKey, positionKey], signal);
  const ms = Math.round(performance.now() - started);
  await pool.setAccess('data', 'rw', signal);
  return { kind: pool.name, changedMib, ms, lastRoundMs: Math.round(durationMs), socatMs: await socatMs(changedMib) };
}

/** The median of three, of which the first warms up what the others need. */
async function socatMs(mib: number): Promise<number> {
  for (const group of ['source', 'target']) {
    await command('lvcreate', '--yes', '--wipesignatures', 'n', '--size', `${mib}m`, '--name', 'plain', group);
  }
  await overwrite('/dev/source/plain', mib, 0);
  const directory = await mkdtemp('/run/moves-');
  const side = await SocatSide.prepare(directory, '/dev/source/plain', '/dev/target/plain');
  const samples: number[] = [];
  for (let sample = 0; sample < 3; sample++) {
    await command('sh', '-c', 'echo 3 >/proc/sys/vm/drop_caches');
    samples.push((await side.copy()).seconds * 1000);
  }
  await rm(directory, { recursive: true });
  for (const group of ['source', 'target']) await command('lvremove', '--yes', `${group}/plain`);
  return Math.round(samples.toSorted((one, other) => one - other)[1] ?? 0);
}

/** A volume with 64 MiB of data, and its copy; both are removed when it is disposed of. */
async function moveOf(pool: ServedPool, targets: ServedPool, sizeMib: number) {
  const sizeBytes = BigInt(sizeMib * mebibyte);
  const { devicePath } = await pool.create({ id: 'data', sizeBytes, tags: [] }, signal);
  await targets.create({ id: 'copy', sizeBytes, tags: [`${receivingKey}=${moveUid}`] }, signal);
  await overwrite(devicePath, 64, 0);
  const tracking = pool.trackChanges('data');
  const offered = await mover.offer(moveUid, { tracking, tags: () => [], own: source, peerCertificate: target.cert });
  const keys = { own: target, peerCertificate: source.cert };
  const place = { moveUid, host: '127.0.0.1', port: offered.port, ...keys, pool: targets, volumeId: 'copy' };
  return {
    devicePath,
    pull: (kind: RoundKind) => mover.pull({ ...place, kind }, signal),
    [Symbol.asyncDispose]: async () => {
      await offered[Symbol.asyncDispose]();
      await tracking.end(signal);
      await pool.remove('data', signal);
      await targets.remove('copy', signal);
    },
  };
}

/** Random data in blocks of 1 MiB, each at a multiple of `1 + gap` MiB. */
async function overwrite(path: string, count: number, gap: number): Promise<void> {
  const script = `for i in $(seq 0 ${count - 1}); do
    dd if=/dev/urandom of=${path} bs=1M count=1 seek=$((i * ${1 + gap})) conv=notrunc status=none; done; sync ${path}`;
  const shell = spawn('sh', ['-ec', count > 0 ? script : 'true'], { stdio: ['ignore', 'ignore', 'inherit'] });
  await once(shell, 'exit');
}
