import assert from 'node:assert/strict';
import { mkdir, readFile, stat, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { CommandNotFound } from '../../src/base/exec.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { run } from '../../worlds/host/processes.ts';
import { LvmdProcess } from '../lvm/lvmd-process.ts';
import { scratchDirectory, scratchFilesystem, whyNotRoot } from './scratch.ts';

const native = { skip: whyNotRoot, timeout: 300_000 };
const unit = join(import.meta.dirname, '..', '..', 'deploy', 'systemd', 'moorage-lvmd.service');

const fileClass = (path: string) => ({ name: 'files', type: 'file', path, default: true, 'spare-gb': 0 });

test('on a machine without LVM, the CLI creates, clones and shreds volumes in a directory', native, async (t) => {
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

test('a class whose directory is created later is served without a restart', native, async (t) => {
  const path = join(await scratchDirectory(t), 'later');
  const lvmd = await LvmdProcess.start(t, [fileClass(path)]);
  const early = await lvmd.moorage('volume', 'create', 'data', '1Mi');
  assert.match(early.stderr, /^device class files cannot be served now: .*later/);
  await mkdir(path);
  await eventually('it is served', async () => (await lvmd.moorage('volume', 'create', 'data', '1Mi')).code === 0);
  await lvmd.moorage('volume', 'rm', 'data');
});

test(
  'engines with different sockets never serve the same directory; the second one does when the first is killed',
  native,
  async (t) => {
    const directory = await scratchDirectory(t);
    const [shared, own, link] = [join(directory, 'shared'), join(directory, 'own'), join(directory, 'link')];
    for (const path of [shared, own]) await mkdir(path);
    await symlink(shared, link);
    const first = await LvmdProcess.start(t, [fileClass(shared)]);
    const second = await LvmdProcess.start(t, [fileClass(link), { ...fileClass(own), name: 'own', default: false }]);
    await first.moorage('volume', 'create', 'data', '1Mi');

    const refused = await second.moorage('volume', 'create', 'data', '1Mi');
    assert.match(
      refused.stderr,
      /^device class files cannot be served now: directory .*link is served by another engine; stop it/,
    );
    const created = await second.moorage('volume', 'create', 'mine', '1Mi', '--device-class', 'own');
    assert.equal(created.code, 0, created.stderr);

    process.kill(first.pid, 'SIGKILL');
    await eventually('the other engine serves it', async () =>
      /^data +files/m.test((await second.moorage('volume', 'ls')).stdout),
    );
    for (const id of ['data', 'mine']) await second.moorage('volume', 'rm', id);
  },
);

test('systemd accepts every line of the unit', async (t) => {
  // The only complaint is that the program is not installed.
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
