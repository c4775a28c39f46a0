import assert from 'node:assert/strict';
import { appendFile } from 'node:fs/promises';
import { type TestContext, test } from 'node:test';
import { type Run, run } from '../../src/base/exec.ts';
import { engineOfTest } from './engine-of-test.ts';
import { copiedConfiguration, Engine, mebibyte, signal, thickClass } from './lvm-pools.ts';
import { discardingGroup, isOnDisk, pausingDiscards, writeSecret } from './secrets.ts';

const asProcesses = ['sh', '-c', '[ $# -gt 0 ] && exec lvm "$@"', 'lvm']; // the shell would be started without a command

/** A pool on a disk that supports discards, with LVM configured to issue them. */
async function onDiscardingDisk(t: TestContext, runs: Run, prefix?: readonly string[]) {
  const { engine } = await engineOfTest(t);
  const { vg, disk } = await discardingGroup(t, engine.pools.get('file'));
  const { configuration, env } = await copiedConfiguration(t);
  await appendFile(configuration, '\ndevices { issue_discards=1 }\n');
  const pool = await new Engine(t, [], prefix, { run: runs, env }).open(thickClass(vg));
  const { devicePath } = await pool.create({ id: 'data', sizeBytes: 20n * mebibyte, tags: [] }, signal);
  await writeSecret(devicePath, [10]);
  assert.equal(await isOnDisk(disk), true);
  return { pool, disk };
}

test('if LVM is configured to discard, space is discarded before the removal, and nothing waits for it', async (t) => {
  const discards = pausingDiscards();
  const { pool, disk } = await onDiscardingDisk(t, discards.run);
  const removal = pool.remove('data', signal);
  await Promise.race([discards.reached, removal.then(() => assert.fail('it was removed without our discard'))]);
  await pool.create({ id: 'other', sizeBytes: 4n * mebibyte, tags: [] }, signal);
  assert.deepEqual(
    pool.list().map(({ id }) => id),
    ['other'],
  );
  discards.goOn();
  assert.equal(await removal, 'removed');
  assert.equal(await isOnDisk(disk), false);
});

for (const [how, prefix] of [['its shell'], ['processes', asProcesses]] as const) {
  test(`LVM discards nothing while it holds its lock, by ${how}`, async (t) => {
    const withoutDiscards: Run = async (argv, options) =>
      argv[0] === 'blkdiscard' ? { stdout: '', stderr: '' } : run(argv, options);
    const { pool, disk } = await onDiscardingDisk(t, withoutDiscards, prefix);
    assert.equal(await pool.remove('data', signal), 'removed');
    assert.equal(await isOnDisk(disk), true);
  });
}
