import assert from 'node:assert/strict';
import { chmod, chown, mkdir, mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { handOverRoot } from './root.ts';

const asRoot = { skip: process.getuid?.() !== 0 && 'needs root, to give files to others' };
const root = { uid: 0, gid: 0 };
const user = { uid: 1000, gid: 2000 };

/** A directory in place of the root of a filesystem, as mkfs left it or as it was changed since. */
async function directory(t: TestContext, mode = 0o755, owner = root): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'moorage-root-'));
  t.after(() => rm(path, { recursive: true }));
  await mkdir(join(path, 'lost+found'));
  await chown(path, owner.uid, owner.gid);
  await chmod(path, mode);
  return path;
}

async function found(path: string): Promise<[mode: number, uid: number, gid: number]> {
  const { mode, uid, gid } = await stat(path);
  return [mode & 0o7777, uid, gid];
}

test('a new filesystem gets its mode and owner, also after an interrupted call', asRoot, async (t) => {
  for (const path of [
    await directory(t),
    await directory(t, 0o755, user),
    await directory(t, 0o2770),
    await directory(t, 0o2770, user),
  ]) {
    for (let i = 0; i < 2; i++) await handOverRoot(path, 0o2770, user);
    assert.deepEqual(await found(path), [0o2770, 1000, 2000]);
  }
});

test('a root directory that was changed or used keeps its mode and owner', asRoot, async (t) => {
  const changed = await directory(t, 0o700);
  const owned = await directory(t, 0o755, { uid: 0, gid: 3000 }); // as the kubelet does for a pod's fsGroup
  const used = await directory(t);
  await writeFile(join(used, 'data'), '');
  for (const path of [changed, owned, used]) {
    const before = await found(path);
    await handOverRoot(path, 0o2777, user);
    assert.deepEqual(await found(path), before);
  }
});
