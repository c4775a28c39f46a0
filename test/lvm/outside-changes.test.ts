import assert from 'node:assert/strict';
import { rm } from 'node:fs/promises';
import { type TestContext, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { systemClock } from '../../src/base/clock.ts';
import { type Run, run } from '../../src/base/exec.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import { MetadataAreas } from '../../src/engine/lvm/metadata-area.ts';
import { VolumeGroups } from '../../src/engine/lvm/volume-groups.ts';
import type { ServedPool } from '../../src/engine/pool.ts';
import { faults } from '../../worlds/lvm/faults.ts';
import { command, disks, volumeGroup } from '../../worlds/lvm/inside.ts';
import { undoAfter } from '../../worlds/lvm/undo.ts';
import { Engine, mebibyte, signal, thickClass, thinClass } from './lvm-pools.ts';

/** Long, but much shorter than the interval of the regular full read. */
const patienceMs = 60_000;

async function seen(pool: Pick<ServedPool, 'onChange'>, what: () => boolean): Promise<number> {
  const start = performance.now();
  const done = Promise.withResolvers<void>();
  const stop = pool.onChange(() => what() && done.resolve());
  const deadline = setTimeout(() => done.reject(new Error('it was not seen')), patienceMs);
  try {
    if (!what()) await done.promise;
    return performance.now() - start;
  } finally {
    clearTimeout(deadline);
    stop();
  }
}

/** Holds back the answers of commands with this argument until released. */
function holding(inner: Run, word: string) {
  const reached = Promise.withResolvers<void>();
  const goesOn = Promise.withResolvers<void>();
  const run: Run = async (words, options) => {
    const output = await inner(words, options);
    if (words.includes(word)) {
      reached.resolve();
      await goesOn.promise;
    }
    return output;
  };
  return { run, reached: reached.promise, goOn: goesOn.resolve };
}

async function onNewGroup(t: TestContext) {
  const vg = await volumeGroup(t, { disks: disks().slice(0, 2) });
  const engine = new Engine(t);
  return { vg, engine, pool: await engine.open(thickClass(vg)) };
}

test('volumes that others create, change and remove are noticed long before the regular full read', async (t) => {
  const { vg, engine, pool } = await onNewGroup(t);
  const timesMs: number[] = [];
  await command('lvcreate', '-y', '-n', 'foreign', '-L', '40m', vg);
  timesMs.push(await seen(pool, () => pool.get('foreign') !== undefined));
  await command('lvchange', '-y', '--addtag', 'hello', `${vg}/foreign`);
  timesMs.push(await seen(pool, () => pool.get('foreign')?.tags.includes('hello') ?? false));
  await command('lvremove', '-y', `${vg}/foreign`);
  timesMs.push(await seen(pool, () => pool.get('foreign') === undefined));
  t.diagnostic(`noticed after ${timesMs.map(Math.round).join(', ')} ms`);

  // Reads change nothing, and our own changes are known: only the last one makes us run a report.
  const { exec } = engine.groups.counts.commands;
  await command('lvs', vg);
  await pool.create({ id: 'ours', sizeBytes: 4n * mebibyte, tags: [] }, signal);
  await command('lvs', vg);
  await command('lvchange', '-y', '--addtag', 'theirs', `${vg}/ours`);
  await seen(pool, () => pool.get('ours')?.tags.includes('theirs') ?? false);
  assert.equal(engine.groups.counts.commands.exec, exec + 1);
});

test('a volume that others deactivate or activate is listed as such', async (t) => {
  const { vg, pool } = await onNewGroup(t);
  await pool.create({ id: 'data', sizeBytes: 4n * mebibyte, tags: [] }, signal);
  const isListedAs = (attr: string) => pool.list().some((volume) => volume.id === 'data' && volume.attr === attr);
  await command('lvchange', '-an', `${vg}/data`);
  await seen(pool, () => isListedAs('-wi-------'));
  await command('lvchange', '-ay', `${vg}/data`);
  await seen(pool, () => isListedAs('-wi-a-----'));
});

test('an added disk is used, and a removed one is not waited for', async (t) => {
  const vg = await volumeGroup(t, { disks: disks().slice(0, 1) });
  const pool = await new Engine(t).open(thickClass(vg));
  const before = pool.capacity().freeBytes;
  const [, second = ''] = disks();
  await command('vgextend', '-y', vg, second);
  t.after(() => command('pvremove', '-y', '-ff', second).catch(() => undefined));
  await seen(pool, () => pool.capacity().freeBytes > before);
  await pool.create({ id: 'large', sizeBytes: before + 100n * mebibyte, tags: [] }, signal);
  await pool.remove('large', signal);
  await command('vgreduce', vg, second);
  await seen(pool, () => pool.capacity().freeBytes === before);
  await pool.create({ id: 'small', sizeBytes: 4n * mebibyte, tags: [] }, signal);
});

test('a read during the write of others does not count as a read of their result', async (t) => {
  const disk = await faults.slowWrites(t, disks()[0] ?? '', 300);
  const vg = await volumeGroup(t, { disks: [disk.path] });
  await command('lvcreate', '-y', '-n', 'data', '-L', '4m', vg); // so that the kernel keeps its cache of the disk
  await disk.breakNow();
  const field = (report: string, name: string) => command(report, '--noheadings', '-o', name, vg);
  const own = [{ path: disk.path, uuid: (await field('vgs', 'pv_uuid')).replaceAll('-', '') }];
  const areas = new MetadataAreas(vg);
  for (const tag of ['one', 'two']) {
    const done = new AbortController();
    const reading = (async () => {
      while (!done.signal.aborted) await areas.sequenceNumberOf(own);
    })();
    await command('lvchange', '-y', '--addtag', tag, `${vg}/data`).finally(() => done.abort());
    await reading;
    assert.equal(await areas.sequenceNumberOf(own), Number(await field('vgs', 'vg_seqno')));
  }
});

test('a disk whose metadata LVM ignores is ignored here too', async (t) => {
  const { vg, pool } = await onNewGroup(t);
  await command('vgchange', '--vgmetadatacopies', 'unmanaged', vg);
  await command('pvchange', '-y', '--metadataignore', 'y', disks()[0] ?? '');
  await pool.refresh(signal);
  for (const name of ['one', 'two', 'three']) {
    await command('lvcreate', '-y', '-n', name, '-L', '4m', vg);
    await seen(pool, () => pool.get(name) !== undefined);
  }
});

test('when the directory of LVM’s locks is replaced, the new one is watched, and missed changes are read', async (t) => {
  const { vg, pool } = await onNewGroup(t);
  await rm('/run/lock/lvm', { recursive: true });
  await command('lvcreate', '-y', '-n', 'missed', '-L', '4m', vg); // creates the directory too
  await seen(pool, () => pool.get('missed') !== undefined);
  await command('lvcreate', '-y', '-n', 'later', '-L', '4m', vg);
  await seen(pool, () => pool.get('later') !== undefined);
});

test('a change between the first read of a group and the watch of LVM’s locks is noticed', async (t) => {
  const slow = await volumeGroup(t, { disks: disks().slice(0, 1) });
  const quick = await volumeGroup(t, { disks: disks().slice(1, 2) });
  const reports = holding(run, slow);
  const watches = holding(reports.run, 'dumpconfig');
  const groups = new VolumeGroups({
    command: ['lvm'],
    run: watches.run,
    env: process.env,
    clock: systemClock,
    log: silentLog,
  });
  undoAfter(t, () => groups.stop());
  const opening = groups.open(slow, signal);
  await reports.reached;
  const other = await groups.open(quick, signal);
  await watches.reached;
  await command('lvcreate', '-y', '-n', 'foreign', '-L', '4m', slow);
  watches.goOn();
  await nextTurn();
  await other.lookAgain(signal); // after the read that follows the start of the watch
  reports.goOn();
  const group = await opening;
  await seen(group, () => group.memory.get('foreign') !== undefined);
});

test('classes of one volume group share its space and its volume names', async (t) => {
  const { vg, engine, pool: thick } = await onNewGroup(t);
  await command('lvcreate', '-y', '--type', 'thin-pool', '-L', '64m', '-n', 'pool', vg);
  const thin = await engine.open(thinClass(vg));
  const free = thick.capacity().freeBytes;
  await thin.create({ id: 'a', sizeBytes: 8n * mebibyte, tags: [] }, signal);
  assert.equal(thick.capacity().freeBytes, free);
  assert.equal(thick.get('a'), undefined);
  await assert.rejects(thick.create({ id: 'a', sizeBytes: 8n * mebibyte, tags: [] }, signal), {
    code: 'AlreadyExists',
  });
  for (const others of ['a', 'pool']) assert.equal(await thick.remove(others, signal), 'absent');
  assert.ok(thin.get('a'), 'a class does not touch volumes of others');
  await thick.create({ id: 'b', sizeBytes: 8n * mebibyte, tags: [] }, signal);
  assert.equal(thick.capacity().freeBytes, free - 8n * mebibyte);
  await Promise.all([thin.remove('a', signal), thick.remove('b', signal)]);
  assert.equal(thick.capacity().freeBytes, free);
});

test('a volume group created later is noticed', async (t) => {
  const { engine, pool, vg } = await onNewGroup(t);
  await command('lvcreate', '-y', '-n', 'first', '-L', '4m', vg);
  await seen(pool, () => pool.get('first') !== undefined); // LVM's locks are watched by now
  const reported = Promise.withResolvers<string>();
  engine.groups.onUnknownGroup(reported.resolve);
  const late = await volumeGroup(t, { disks: disks().slice(2, 3) });
  assert.equal(await reported.promise, late);
});
