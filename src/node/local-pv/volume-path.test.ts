import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readdir, readFile, readlink, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { exists } from '../../base/exists.ts';
import { hideFrom, showAt } from './volume-path.ts';

async function places(t: TestContext) {
  const directory = await mkdtemp(join(tmpdir(), 'volume-path-'));
  t.after(() => rm(directory, { recursive: true }));
  return { path: join(directory, 'base', 'db'), mountPoint: join(directory, 'mounted'), base: join(directory, 'base') };
}

test('a volume is shown by a link, which dangles while its mount point does not exist', async (t) => {
  const { path, mountPoint } = await places(t);
  for (let i = 0; i < 2; i++) await showAt(path, mountPoint);
  assert.equal(await readlink(path), mountPoint);
  assert.equal(await exists(path), false);
  await mkdir(mountPoint);
  assert.equal(await exists(path), true);

  for (let i = 0; i < 2; i++) await hideFrom(path, mountPoint);
  assert.equal(await exists(path), false);
  assert.equal(await exists(mountPoint), true);
});

test('an empty directory is replaced, one with data is not touched', async (t) => {
  const { path, mountPoint } = await places(t);
  await mkdir(path, { recursive: true });
  await showAt(path, mountPoint);
  assert.equal(await readlink(path), mountPoint);

  await rm(path);
  await mkdir(path);
  await writeFile(join(path, 'file'), 'data');
  await assert.rejects(showAt(path, mountPoint), { name: 'DirectoryHasData' });
  await hideFrom(path, mountPoint);
  assert.equal(await readFile(join(path, 'file'), 'utf8'), 'data');
});

test('a file, or a link to another place, is refused and stays', async (t) => {
  const { path, mountPoint, base } = await places(t);
  await mkdir(base);
  await writeFile(path, '');
  await assert.rejects(showAt(path, mountPoint), { message: /is a file, .* move it away$/ });
  await rm(path);
  await symlink('/elsewhere', path);
  await assert.rejects(showAt(path, mountPoint), { message: /is a link to \/elsewhere/ });
  await hideFrom(path, mountPoint);
  assert.deepEqual(await readdir(base), ['db']);
});
