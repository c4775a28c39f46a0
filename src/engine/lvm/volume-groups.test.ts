import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { CommandFailed, type Run } from '../../base/exec.ts';
import { ManualClock } from '../../base/testing/manual-clock.ts';
import { silentLog } from '../../base/testing/silent-log.ts';
import { VolumeGroups } from './volume-groups.ts';

const { signal } = new AbortController();

/** LVM without any group, which locks the group it is asked for, as LVM does. */
async function withoutGroups(t: { after(undo: () => Promise<void>): void }) {
  const locks = await mkdtemp(join(tmpdir(), 'lvm-locks-'));
  const lock = (group: string) => writeFile(join(locks, `V_${group}`), '');
  const run: Run = async (command) => {
    if (command.includes('dumpconfig')) return { stdout: `locking_dir="${locks}"\n`, stderr: '' };
    await lock('missing');
    const stderr = 'Volume group "missing" not found';
    throw new CommandFailed(command, { exitCode: 5, signal: null, stdout: '', stderr });
  };
  const clock = new ManualClock();
  const groups = new VolumeGroups({ command: ['lvm'], run, env: {}, clock, log: silentLog });
  t.after(async () => {
    await groups.stop();
    await rm(locks, { recursive: true });
  });
  const reported: string[] = [];
  groups.onUnknownGroup((name) => reported.push(name));
  /** Locks are reported in order, so everything before this one has been reported as well. */
  const reportedAfterLocking = async (group: string) => {
    await lock(group);
    const count = () => reported.filter((name) => name === group).length;
    for (const before = count(); count() === before; clock.advance(1000)) await new Promise(setImmediate);
    return reported.splice(0);
  };
  return { groups, clock, reportedAfterLocking };
}

test('a look for a missing group does not cause another one, and its creation is reported', async (t) => {
  const { groups, clock, reportedAfterLocking } = await withoutGroups(t);
  const open = () => assert.rejects(groups.open('missing', signal), { name: 'PoolMissing' });
  await open();
  clock.advance(1000); // the watch has started, which causes one look
  await reportedAfterLocking('first');
  await open();
  assert.deepEqual(await reportedAfterLocking('other'), ['other']);
  assert.deepEqual(await reportedAfterLocking('missing'), ['missing']);
});
