import assert from 'node:assert/strict';
import { appendFile, copyFile, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { type Run, run } from '../../src/base/exec.ts';
import { foundOnDevice } from '../../worlds/lvm/found-on-device.ts';
import { command, volumeGroup } from '../../worlds/lvm/inside.ts';
import { undoAfter } from '../../worlds/lvm/undo.ts';
import { engineOfTest } from './engine-of-test.ts';
import { Engine, mebibyte, signal, thickClass } from './lvm-pools.ts';

const secret = 'moorage-secret';
const asProcesses = ['sh', '-c', '[ $# -gt 0 ] && exec lvm "$@"', 'lvm']; // the shell would be started without a command

/** A pool on a disk that supports discards, with LVM configured to issue them. */
async function onDiscardingDisk(t: TestContext, runs: Run, prefix?: readonly string[]) {
  const { engine } = await engineOfTest(t);
  const file = await engine.pools.get('file').create({ id: 'disk', sizeBytes: 100n * mebibyte, tags: [] }, signal);
  const disk = file.devicePath; // a loop device, which punches holes
  const vg = await volumeGroup(t, { disks: [disk] });
  const dir = await mkdtemp(join(tmpdir(), 'lvm-conf-'));
  undoAfter(t, () => rm(dir, { recursive: true }));
  const configuration = join(dir, 'lvm.conf');
  await copyFile(join(process.env['LVM_SYSTEM_DIR'] ?? '/etc/lvm', 'lvm.conf'), configuration);
  await appendFile(configuration, '\ndevices { issue_discards=1 }\n');
  const env = { ...process.env, LVM_SYSTEM_DIR: dir };
  const pool = await new Engine(t, [], prefix, { run: runs, env }).open(thickClass(vg));
  const { devicePath } = await pool.create({ id: 'data', sizeBytes: 20n * mebibyte, tags: [] }, signal);
  await command('sh', '-c', `printf ${secret} | dd of=${devicePath} bs=1M seek=10 conv=fsync status=none`);
  const isOnDisk = async () => {
    await command('blockdev', '--flushbufs', disk);
    return foundOnDevice(disk, secret);
  };
  assert.equal(await isOnDisk(), true);
  return { pool, isOnDisk };
}

test('if LVM is configured to discard, space is discarded before the removal, and nothing waits for it', async (t) => {
  const reached = Promise.withResolvers<void>();
  const goOn = Promise.withResolvers<void>();
  const waiting: Run = async (argv, options) => {
    if (argv[0] === 'blkdiscard') {
      reached.resolve();
      await goOn.promise;
    }
    return run(argv, options);
  };
  const { pool, isOnDisk } = await onDiscardingDisk(t, waiting);
  const removal = pool.remove('data', signal);
  await Promise.race([reached.promise, removal.then(() => assert.fail('it was removed without our discard'))]);
  await pool.create({ id: 'other', sizeBytes: 4n * mebibyte, tags: [] }, signal);
  assert.deepEqual(
    pool.list().map(({ id }) => id),
    ['other'],
  );
  goOn.resolve();
  assert.equal(await removal, true);
  assert.equal(await isOnDisk(), false);
});

for (const [how, prefix] of [['its shell'], ['processes', asProcesses]] as const) {
  test(`LVM discards nothing while it holds its lock, by ${how}`, async (t) => {
    const withoutDiscards: Run = async (argv, options) =>
      argv[0] === 'blkdiscard' ? { stdout: '', stderr: '' } : run(argv, options);
    const { pool, isOnDisk } = await onDiscardingDisk(t, withoutDiscards, prefix);
    assert.equal(await pool.remove('data', signal), true);
    assert.equal(await isOnDisk(), true);
  });
}
