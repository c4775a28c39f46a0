import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openThick, signal, volume } from './testing/simulated-pools.ts';

const ids = ['a', 'b', 'c'];

async function withVolumes() {
  const opened = await openThick();
  for (const id of ids) await opened.pool.create(volume(id), signal);
  opened.lvm.commands.length = 0;
  return opened;
}

async function statuses(removals: readonly Promise<unknown>[]): Promise<string[]> {
  return (await Promise.allSettled(removals)).map(({ status }) => status);
}

test('all waiting removals fail at once if LVM cannot be queried, and can be retried', async () => {
  const { pool, lvm } = await withVolumes();
  lvm.numberOnDisks = () => undefined;
  lvm.fails = () => 'before';
  const removals = [...ids, 'never-made'].map((id) => pool.remove(id, signal));
  assert.deepEqual(
    await statuses(removals),
    removals.map(() => 'rejected'),
  );
  assert.deepEqual(lvm.commands, ['fullreport']);

  lvm.fails = () => undefined;
  const again = [...ids, 'never-made'].map((id) => pool.remove(id, signal));
  assert.deepEqual(await Promise.all(again), ['removed', 'removed', 'removed', 'absent']);
  assert.equal(lvm.volumes.size, 0);
});

test('a removal whose caller leaves during the query is cancelled, and the others complete', async () => {
  const { pool, lvm } = await withVolumes();
  lvm.numberOnDisks = () => undefined;
  const abort = new AbortController();
  lvm.fails = (subcommand) => {
    if (subcommand === 'fullreport') abort.abort();
    return undefined;
  };
  const left = pool.remove('a', abort.signal);
  const others = [pool.remove('b', signal), pool.remove('never-made', signal)];
  await assert.rejects(left, { name: 'AbortError' });
  assert.deepEqual(await Promise.all(others), ['removed', 'absent']);
  assert.deepEqual([...lvm.volumes.keys()], ['a', 'c']);
});

test('removals that timed out together are retried one by one, and only when requested again', async () => {
  const { pool, lvm } = await withVolumes();
  lvm.fails = (subcommand, args) => (subcommand === 'lvremove' && args.includes('vg/b') ? 'hangs' : undefined);
  const removals = ids.map((id) => pool.remove(id, signal));
  assert.deepEqual(await statuses(removals), ['rejected', 'rejected', 'rejected']);
  assert.deepEqual(lvm.commands, ['lvremove']);

  assert.deepEqual(await statuses(ids.map((id) => pool.remove(id, signal))), ['fulfilled', 'rejected', 'fulfilled']);
  assert.deepEqual([...lvm.volumes.keys()], ['b'], 'the removal that hangs blocks no other');
});

test('other changes get their turn between removals that are retried one by one', async () => {
  const { pool, lvm } = await withVolumes();
  lvm.fails = (subcommand, args) => (subcommand === 'lvremove' && args.includes('vg/b') ? 'before' : undefined);
  const removals = ids.map((id) => pool.remove(id, signal));
  const creation = pool.create(volume('new'), signal);
  assert.deepEqual(await statuses(removals), ['fulfilled', 'rejected', 'fulfilled']);
  await creation;
  assert.deepEqual([...lvm.volumes.keys()], ['b', 'new']);
  const [together, ...later] = lvm.commands.filter((subcommand) => subcommand !== 'fullreport');
  assert.equal(together, 'lvremove');
  assert.equal(later[0], 'lvcreate');
});

test('a removal succeeds if LVM removed the volume and then failed', async () => {
  const { pool, lvm } = await withVolumes();
  lvm.fails = (subcommand) => (subcommand === 'lvremove' ? 'after' : undefined);
  assert.deepEqual(await Promise.all(ids.map((id) => pool.remove(id, signal))), ['removed', 'removed', 'removed']);
  assert.deepEqual(lvm.commands, ['lvremove', 'fullreport']);

  await pool.create(volume('d'), signal);
  assert.equal(await pool.remove('d', signal), 'removed');
});

test('a volume that somebody else removes between two attempts counts as removed', async () => {
  const { pool, lvm } = await withVolumes();
  let hasFailed = false;
  lvm.fails = (subcommand, args) => {
    if (subcommand !== 'lvremove' || !args.includes('vg/b')) return undefined;
    hasFailed = true;
    return 'before';
  };
  lvm.numberOnDisks = () => {
    if (hasFailed && lvm.volumes.delete('a')) lvm.sequenceNumber++;
    return lvm.sequenceNumber;
  };
  const [a, , c] = await Promise.allSettled(ids.map((id) => pool.remove(id, signal)));
  assert.deepEqual(
    [a, c],
    [
      { status: 'fulfilled', value: 'removed' },
      { status: 'fulfilled', value: 'removed' },
    ],
  );
  assert.deepEqual([...lvm.volumes.keys()], ['b']);
});
