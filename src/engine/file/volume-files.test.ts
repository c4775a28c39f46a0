import assert from 'node:assert/strict';
import { chmod, mkdtempDisposable, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { run } from '../../base/exec.ts';
import { VolumeFiles } from './volume-files.ts';

const signal = new AbortController().signal;
const label = { tags: [], readOnly: false, family: 'data' };

const modeOf = async (path: string) => ((await stat(path)).mode & 0o777).toString(8);

test('only its owner reads an image, a copy, a checkpoint or a label, whatever umask and source allow', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'moorage-files-'));
  const files = new VolumeFiles(directory.path, run);
  const loosest = join(directory.path, 'loosest');
  await writeFile(loosest, 'data');
  await chmod(loosest, 0o666);
  const copy = async (draft: string) => void (await run(['cp', loosest, draft], { timeoutMs: 60_000 }));

  await files.create('new', 4096n, label, signal);
  await files.draft('draft', 4096n, signal);
  await files.createCopy('copy', 4096n, label, copy, signal);
  await files.createCheckpoint('new', 'checkpoint-1', copy);

  for (const name of ['new.img', 'new.json', 'draft.img.new', 'copy.img', 'new.img.checkpoint-1']) {
    assert.equal(await modeOf(join(directory.path, name)), '600', name);
  }
});

test('access to a directory of an earlier version is restricted, and nothing outside changes', async () => {
  await using directory = await mkdtempDisposable(join(tmpdir(), 'moorage-files-'));
  await using outside = await mkdtempDisposable(join(tmpdir(), 'moorage-outside-'));
  const names = ['data.img', 'data.json', 'copy.img.new', 'data.img.checkpoint-1', 'data.img.frozen'];
  await writeFile(join(outside.path, 'file'), '');
  await chmod(join(outside.path, 'file'), 0o644);
  await symlink(join(outside.path, 'file'), join(directory.path, 'link.img'));
  for (const name of names) {
    await writeFile(join(directory.path, name), '');
    await chmod(join(directory.path, name), 0o644);
  }
  await chmod(directory.path, 0o755);

  await new VolumeFiles(directory.path, run).restrictAccess();

  assert.equal(await modeOf(directory.path), '700');
  for (const name of names) assert.equal(await modeOf(join(directory.path, name)), '600', name);
  assert.equal(await modeOf(join(outside.path, 'file')), '644');
});
