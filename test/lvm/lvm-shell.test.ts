import assert from 'node:assert/strict';
import { appendFile, readdir, readFile } from 'node:fs/promises';
import { type TestContext, test } from 'node:test';
import { systemClock } from '../../src/base/clock.ts';
import { run } from '../../src/base/exec.ts';
import { ManualClock } from '../../src/base/testing/manual-clock.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import { Eraser } from '../../src/engine/erase/eraser.ts';
import { Erasures } from '../../src/engine/erase/erasures.ts';
import { deviceNamesIn } from '../../src/engine/lvm/activation-changes.ts';
import { Lvm, newLvmCounts } from '../../src/engine/lvm/lvm.ts';
import { LvmPool } from '../../src/engine/lvm/lvm-pool.ts';
import { MetadataAreas } from '../../src/engine/lvm/metadata-area.ts';
import { type Disk, parseReport, reportArguments } from '../../src/engine/lvm/report.ts';
import { VolumeGroup } from '../../src/engine/lvm/volume-group.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { faults } from '../../worlds/lvm/faults.ts';
import { command, disks, volumeGroup } from '../../worlds/lvm/inside.ts';
import { undoAfter } from '../../worlds/lvm/undo.ts';
import { copiedConfiguration, Engine, mebibyte, signal, thickClass } from './lvm-pools.ts';

/** Our descendants that run `lvm` without a command: shells. */
async function shells(): Promise<number[]> {
  const found: number[] = [];
  for (const pid of (await readdir('/proc')).filter((name) => /^\d+$/.test(name))) {
    const words = (await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')).split('\0');
    if (words[0]?.endsWith('lvm') && !words[1]) found.push(Number(pid));
  }
  return found;
}

/** The default of vgcreate. */
const metadataAreaBytes = mebibyte;

async function memoryMib(pid: number): Promise<number> {
  const [, kib] = /^VmRSS:\s+(\d+) kB$/m.exec(await readFile(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Number(kib) / 1024;
}

const newVolume = (id: string) => ({ id, sizeBytes: 4n * mebibyte, tags: [] });

async function onNewGroup(t: TestContext, prefix?: readonly string[]) {
  const vg = await volumeGroup(t, { disks: disks().slice(0, 1) });
  const engine = new Engine(t, [], prefix);
  return { vg, engine, pool: await engine.open(thickClass(vg)) };
}

test('one shell runs all commands; a killed one is replaced, and the cache stays correct', async (t) => {
  const { pool, engine } = await onNewGroup(t);
  for (const id of ['a', 'b']) await pool.create(newVolume(id), signal);
  const [shell = 0, ...others] = await shells();
  assert.deepEqual(others, []);
  process.kill(shell, 'SIGKILL');
  const create = (id: string) => pool.create(newVolume(id), signal);
  await create('c').catch(() => create('c')); // the result of the command that ran when the shell died is unknown, so its caller retries
  await create('d');
  assert.equal(engine.groups.counts.shellRestarts, 1);
  assert.deepEqual((await shells()).includes(shell), false);
  assert.deepEqual(
    pool.list().map(({ id }) => id),
    ['a', 'b', 'c', 'd'],
  );
});

test('an idle shell ends, and the next command starts another one', async (t) => {
  const [disk = ''] = disks();
  const vg = await volumeGroup(t, { disks: [disk] });
  const clock = new ManualClock();
  const counts = newLvmCounts();
  const lvm = new Lvm({ command: ['lvm'], run, env: process.env, clock, log: silentLog, counts });
  undoAfter(t, async () => lvm.close());
  lvm.useDisks({ devices: [disk], metadataAreaBytes });
  await lvm.execute(['lvs', vg]);
  assert.equal((await shells()).length, 1);

  clock.advance(1900);
  await lvm.execute(['lvs', vg]);
  clock.advance(1900);
  assert.equal((await shells()).length, 1, 'it stays while it gets commands now and then');
  clock.advance(100);
  await eventually('the shell is gone', async () => (await shells()).length === 0);

  await lvm.execute(['lvs', vg]);
  assert.deepEqual([counts.commands.shell, counts.shellRestarts], [3, 0], 'an idle end is not counted as a failure');

  await lvm.execute(['lvs', '--select', 'lv_size > 1', vg]); // as a process: the shell would split it
  assert.equal((await shells()).length, 1);
  clock.advance(2000);
  await eventually('the shell is gone', async () => (await shells()).length === 0);
});

/** LVM with its own configuration, for one group. */
async function withConfiguration(t: TestContext) {
  const [disk = ''] = disks();
  const vg = await volumeGroup(t, { disks: [disk] });
  const { configuration, env } = await copiedConfiguration(t);
  const counts = newLvmCounts();
  const lvm = new Lvm({ command: ['lvm'], run, env, clock: new ManualClock(), log: silentLog, counts });
  undoAfter(t, async () => lvm.close());
  lvm.useDisks({ devices: [disk], metadataAreaBytes });
  return { vg, disk, configuration, lvm, counts };
}

test("extra output that the administrator's configuration enables does not get into LVM's reports", async (t) => {
  const { vg, disk, configuration, lvm, counts } = await withConfiguration(t);
  const talkative = 'log { report_command_log=1 prefix="XX" command_names=1 } report { prefixes=1 }';
  await appendFile(configuration, `\n${talkative}\n`);
  assert.equal((await lvm.survey(vg, signal)).volumes.length, 0);
  lvm.useDisks({ devices: [], metadataAreaBytes }); // reads all disks
  assert.equal((await lvm.survey(vg, signal)).volumes.length, 0);
  lvm.useDisks({ devices: [disk], metadataAreaBytes });
  assert.equal(parseReport(await lvm.execute(reportArguments(vg))).volumes.length, 0);
  assert.deepEqual([counts.commands, counts.shellFailures], [{ shell: 1, exec: 2 }, 0]);
});

test('a shell uses the node’s configuration at the time of its start', async (t) => {
  const { vg, configuration, lvm, counts } = await withConfiguration(t);
  for (let i = 0; i < 2; i++) {
    assert.match(await lvm.execute(['vgs', vg]), /"vg_free"/);
    lvm.close();
  }
  await appendFile(configuration, '\nreport { vgs_cols="vg_name" }\n');
  assert.doesNotMatch(await lvm.execute(['vgs', vg]), /"vg_free"/);
  assert.deepEqual(counts.commands, { shell: 3, exec: 0 });
});

test('a shell that creates, tags, grows and removes volumes uses little memory', async (t) => {
  const vg = await volumeGroup(t, { disks: disks().slice(0, 1) });
  // Heap fragmentation depends on a few bytes, so each shell uses names of another length.
  for (const length of [1, 2, 3, 5, 8, 12, 16, 20, 28, 40]) {
    const engine = new Engine(t);
    const pool = await engine.open(thickClass(vg));
    for (const id of ['a', 'b', 'c'].map((letter) => letter.repeat(length))) {
      await pool.create({ ...newVolume(id), tags: ['one', 'two'] }, signal);
      await pool.addTags(id, ['three'], signal);
      await pool.grow(id, 8n * mebibyte, signal);
      await pool.remove(id, signal);
    }
    const [shell = 0] = await shells();
    const mib = await memoryMib(shell);
    assert.ok(mib < 35, `with names of ${length} letters it uses ${mib} MiB`); // with a fragmented heap it is 50 to 100
    await engine.groups.stop();
    await eventually('the shell is gone', async () => (await shells()).length === 0);
  }
});

test('a shell works with the largest metadata that such a group can have', async (t) => {
  const { vg, pool, engine } = await onNewGroup(t);
  const tag = (index: number) => `${index}`.padEnd(1000, 'x');
  const fill = async (index: number) => {
    const words = Array.from({ length: 20 }, (_, at) => ['--addtag', tag(index * 20 + at)]).flat();
    await command('vgchange', ...words, vg);
  };
  for (let index = 0; index < 22; index++) await fill(index);
  await assert.rejects(async () => {
    for (let index = 22; ; index++) await fill(index);
  }, /metadata/);
  await command('vgchange', '--deltag', tag(0), '--deltag', tag(1), vg); // space for a volume

  await pool.create(newVolume('a'), signal);
  await pool.grow('a', 8n * mebibyte, signal);
  await pool.remove('a', signal);
  const { commands, shellRestarts, shellFailures } = engine.groups.counts;
  assert.ok(commands.shell >= 3);
  assert.deepEqual([shellRestarts, shellFailures], [0, 0]);
});

test('the shell finds its settings and its disks through nsenter too', async (t) => {
  const prefix = ['nsenter', '-m', '-u', '-i', '-n', '-p', '-t', '1', '/sbin/lvm'];
  const { pool, engine } = await onNewGroup(t, prefix);
  await pool.create(newVolume('a'), signal);
  await pool.remove('a', signal);
  assert.deepEqual(engine.groups.counts.shellFailures, 0);
  assert.ok(engine.groups.counts.commands.shell >= 2);
});

test('without a shell every command is a process, and the metrics show it', async (t) => {
  const vg = await volumeGroup(t, { disks: disks().slice(0, 1) });
  // The shell would be started without a command: then this one ends at once.
  const engine = new Engine(t, [], ['sh', '-c', '[ $# -gt 0 ] && exec lvm "$@"', 'lvm']);
  const pool = await engine.open(thickClass(vg));
  await pool.create(newVolume('a'), signal);
  await pool.remove('a', signal);
  assert.deepEqual(engine.groups.counts.commands.shell, 0);
  assert.equal(engine.groups.counts.shellFailures, 1);
});

test('the node’s filters apply to the shell: a rejected disk is never touched', async (t) => {
  const [first = '', second = ''] = disks();
  const vg = await volumeGroup(t, { disks: [first] });
  await command('vgcreate', '-y', `${vg}hidden`, second);
  undoAfter(t, async () => {
    await command('vgremove', '-ff', '-y', `${vg}hidden`);
    await command('pvremove', '-y', second);
  });
  const counts = newLvmCounts();
  const lvm = new Lvm({ command: ['lvm'], run, env: process.env, clock: systemClock, log: silentLog, counts });
  undoAfter(t, async () => lvm.close());
  lvm.useDisks({ devices: [first], metadataAreaBytes });
  assert.match(await lvm.execute(['vgs', '-o', 'vg_name']), new RegExp(`"${vg}"`));
  assert.doesNotMatch(await lvm.execute(['vgs', '-o', 'vg_name']), /hidden/);
  assert.equal(counts.commands.shell, 2);
});

test('arguments that the shell would split run as a process', async (t) => {
  const { vg } = await onNewGroup(t);
  const counts = newLvmCounts();
  const lvm = new Lvm({ command: ['lvm'], run, env: process.env, clock: systemClock, log: silentLog, counts });
  undoAfter(t, async () => lvm.close());
  lvm.useDisks({ devices: disks().slice(0, 1), metadataAreaBytes });
  await lvm.execute(['lvs', '--config', 'report { separator="x y" }', vg]);
  assert.deepEqual(counts.commands, { shell: 0, exec: 1 });
});

test('a volume with very many tags, or an odd one, is created like any other', async (t) => {
  const { pool, engine } = await onNewGroup(t);
  const tags = Array.from({ length: 62 }, (_, index) => `tag${index}${'x'.repeat(240)}`);
  await pool.create({ ...newVolume('many'), tags }, signal);
  await pool.create({ ...newVolume('odd'), tags: ['#odd', 'after'] }, signal);
  await pool.refresh(signal);
  assert.ok(tags.every((tag) => pool.get('many')?.tags.includes(tag)));
  assert.ok(['#odd', 'after'].every((tag) => pool.get('odd')?.tags.includes(tag)));

  // As many at once as fit into one command, with long names.
  const ids = Array.from({ length: 50 }, (_, index) => `${index}`.padEnd(64, 'x'));
  for (const id of ids) await pool.create(newVolume(id), signal);
  await Promise.all(ids.map((id) => pool.remove(id, signal)));
  await pool.refresh(signal);
  assert.equal(pool.list().length, 2);
  assert.equal(engine.groups.counts.shellRestarts, 0);
});

test('a hung disk fails one request at its deadline; when it answers again, everything works', async (t) => {
  const disk = await faults.delay(t, disks()[0] ?? '', 8_000);
  const vg = await volumeGroup(t, { disks: [disk.path] });
  const common = { clock: systemClock, log: silentLog };
  const counts = newLvmCounts();
  const lvm = new Lvm({ command: ['lvm'], run, env: process.env, counts, commandTimeoutMs: 4_000, ...common });
  undoAfter(t, async () => lvm.close());
  const areas = new MetadataAreas(vg);
  let hangs = false;
  let lastRead: number | undefined;
  const sequenceNumberOf = async (disks: readonly Disk[]) => {
    if (!hangs) lastRead = await areas.sequenceNumberOf(disks); // hangs just after it was read
    return lastRead;
  };
  const deviceNames = () => deviceNamesIn(`/dev/${vg}`);
  const group = new VolumeGroup({
    name: vg,
    lvm,
    sequenceNumberOf,
    deviceNames,
    locks: { isWatched: false, isTaken: async () => false },
    ...common,
  });
  const erasures = new Erasures({ eraser: new Eraser(run), ...common });
  const pool = await LvmPool.open(
    { deviceClass: thickClass(vg), optionClasses: [], group, erasures, run, ...common },
    signal,
  );
  await pool.create(newVolume('before'), signal);

  hangs = true;
  await disk.breakNow();
  await assert.rejects(pool.create(newVolume('during'), signal), { name: 'CommandTimedOut', code: 'DeadlineExceeded' });
  assert.ok(pool.get('before'), 'cached volumes stay known');
  await disk.heal();
  hangs = false;

  await pool.create(newVolume('during'), signal);
  assert.deepEqual(
    pool
      .list()
      .map(({ id }) => id)
      .toSorted(),
    ['before', 'during'],
  );
  assert.equal(counts.shellRestarts, 1);
});
