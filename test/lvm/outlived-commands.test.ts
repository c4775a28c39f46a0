import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { after, test } from 'node:test';
import { systemClock } from '../../src/base/clock.ts';
import { CommandTimedOut, type Run, run } from '../../src/base/exec.ts';
import { Launcher } from '../../src/base/launcher.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import { askLvm } from '../../src/engine/lvm/group-memory.ts';
import { Lvm, newLvmCounts } from '../../src/engine/lvm/lvm.ts';
import { VolumeGroup } from '../../src/engine/lvm/volume-group.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { faults } from '../../worlds/lvm/faults.ts';
import { command, disks, volumeGroup } from '../../worlds/lvm/inside.ts';

const signal = new AbortController().signal;
/** Because it enters a PID namespace, it runs the command in a child process and waits for it. */
const nsenter = ['nsenter', '-m', '-u', '-i', '-n', '-p', '-t', '1'] as const;
const common = { clock: systemClock, log: silentLog };

async function processes(word: string): Promise<number[]> {
  const found: number[] = [];
  for (const pid of (await readdir('/proc')).filter((name) => /^\d+$/.test(name))) {
    const words = (await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')).split('\0');
    if (words.includes(word)) found.push(Number(pid));
  }
  return found;
}

const launcher = new Launcher({ env: process.env, clock: systemClock });
after(() => launcher[Symbol.dispose]());

for (const [how, runs] of [
  ['directly', run],
  ['by a launcher', launcher.run],
] as const satisfies readonly (readonly [string, Run])[]) {
  test(`a command behind nsenter, started ${how}, is killed with it at its deadline`, async () => {
    const naptime = how === 'directly' ? '100001' : '100002';
    await assert.rejects(runs([...nsenter, 'sleep', naptime], { timeoutMs: 1_000 }), CommandTimedOut);
    await eventually('the command is gone', async () => (await processes(naptime)).length === 0);
  });
}

test('after LVM behind nsenter was killed during a write, the group is read only when its lock is free', async (t) => {
  const disk = await faults.slowWrites(t, disks()[0] ?? '', 1_000);
  const vg = await volumeGroup(t, { disks: [disk.path] });
  await command('lvcreate', '-y', '-n', 'data', '-L', '4m', vg);
  for (const deadlineMs of [1_500, 2_000, 2_500, 3_000]) {
    // The shell would be started without a command: then this ends at once, so each command is a process.
    const asProcesses = [...nsenter, 'sh', '-c', '[ $# -gt 0 ] && exec lvm "$@"', 'lvm'] as const;
    const killing: Run = (words, options) =>
      launcher.run(words, { ...options, timeoutMs: words.includes('lvchange') ? deadlineMs : options.timeoutMs });
    const lvm = new Lvm({ command: asProcesses, run: killing, env: process.env, counts: newLvmCounts(), ...common });
    const group = new VolumeGroup({
      ...{ name: vg, lvm, locks: { isWatched: false, isTaken: async () => false }, ...common },
      sequenceNumberOf: async () => undefined,
      deviceNames: async () => [],
    });
    await group.refresh(signal);
    await disk.breakNow();
    const tag = `t${deadlineMs}`;
    const change = group.change(signal, () =>
      group.execute(['lvchange', '--yes', '--addtag', tag, `${vg}/data`], askLvm),
    );
    await change.catch((error: unknown) => assert.ok(error instanceof CommandTimedOut, String(error)));
    await group.refresh(signal);
    const known = group.memory.get('data')?.tags.includes(tag);
    await disk.heal();
    const tags = await command('lvs', '--noheadings', '-o', 'lv_tags', `${vg}/data`);
    assert.equal(known, tags.split(',').includes(tag), `killed after ${deadlineMs} ms`);
  }
});
