import assert from 'node:assert/strict';
import { mkdir, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { CommandNotFound, run } from '../../src/base/exec.ts';
import { LvmdProcess } from '../lvm/lvmd-process.ts';
import { scratchDirectory, scratchFilesystem, whyNotRoot } from './scratch.ts';

const native = { skip: whyNotRoot, timeout: 300_000 };
const unit = join(import.meta.dirname, '..', '..', 'deploy', 'systemd', 'moorage-lvmd.service');

const fileClass = (path: string) => ({ name: 'files', type: 'file', path, default: true, 'spare-gb': 0 });

test('on a machine without LVM, people make, clone and shred volumes in a directory', native, async (t) => {
  const path = await scratchFilesystem(t, 'xfs');
  const lvmd = await LvmdProcess.start(t, [{ ...fileClass(path), erase: 'shred', 'erase-passes': 1 }]);
  assert.equal((await stat(lvmd.socketPath)).mode & 0o777, 0o600);

  await lvmd.moorage('volume', 'create', 'data', '32Mi');
  await lvmd.moorage('volume', 'snapshot', 'data', 'clone', '--access', 'rw');
  const { stdout } = await lvmd.moorage('volume', 'ls');
  assert.match(stdout, /^clone +files +32 MiB +rw +data +\/dev\/loop\d+$/m);
  const removed = await lvmd.moorage('volume', 'rm', 'clone', 'data');
  assert.deepEqual([removed.code, removed.stdout], [0, 'volume clone removed\nvolume data removed\n'], removed.stderr);
});

test('a class whose directory comes later is served without a restart', native, async (t) => {
  const path = join(await scratchDirectory(t), 'later');
  const lvmd = await LvmdProcess.start(t, [fileClass(path)]);
  const early = await lvmd.moorage('volume', 'create', 'data', '1Mi');
  assert.match(early.stderr, /^device class files cannot be served now: .*later/);
  await mkdir(path);
  let made = early;
  while (made.code !== 0) made = await lvmd.moorage('volume', 'create', 'data', '1Mi');
  await lvmd.moorage('volume', 'rm', 'data');
});

test('systemd understands every line of the unit', async (t) => {
  // Only the program is not installed where the unit expects it.
  const file = join(await scratchDirectory(t), 'moorage-lvmd.service');
  await writeFile(file, (await readFile(unit, 'utf8')).replace('/usr/local/bin/moorage', '/bin/true'));
  try {
    const { stderr } = await run(['systemd-analyze', 'verify', '--man=no', file], { timeoutMs: 60_000 });
    assert.doesNotMatch(stderr, /moorage-lvmd/);
  } catch (error) {
    if (!(error instanceof CommandNotFound)) throw error;
    t.skip('systemd is not installed');
  }
});
