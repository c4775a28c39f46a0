import assert from 'node:assert/strict';
import { mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { Mount } from '../base/mountinfo.ts';
import type { Volume } from '../engine/pool.ts';
import { InMemoryPool } from '../engine/testing/in-memory-pool.ts';
import { btrfs } from '../filesystem/btrfs.ts';
import { ext4 } from '../filesystem/ext4.ts';
import type { Filesystem } from '../filesystem/filesystem.ts';
import type { MountRequest } from '../filesystem/mounts.ts';
import { xfs } from '../filesystem/xfs.ts';
import { PreparedFilesystems } from './prepared-filesystems.ts';

const never = new AbortController().signal;
// The defaults of a new directory, as tests that change the owner need root.
const owner = { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 };

const used = (filesystem: Filesystem, ...mountFlags: string[]) => {
  const settings = { mkfsOptions: ['-L', 'x'], rootMode: 0o755, rootOwner: owner };
  return { kind: 'filesystem', filesystem, mountFlags, settings } as const;
};

/** Records formats and mounts instead of executing them. */
async function node(t: TestContext, { present, readOnly = false }: { present?: Mount; readOnly?: boolean } = {}) {
  const directory = await mkdtemp(join(tmpdir(), 'moorage-prepared-'));
  t.after(() => rm(directory, { recursive: true }));
  const pool = new InMemoryPool('ssd', 4096n);
  await pool.create({ id: 'v', sizeBytes: 1n, tags: [] });
  const copied = readOnly ? await pool.snapshot('v', { id: 'w', tags: [], access: 'ro' }) : undefined;
  const source = copied ?? pool.get('v') ?? assert.fail();
  const steps: unknown[] = [];
  const filesystems = new PreparedFilesystems({
    formatter: {
      async ensure(_, volume: Volume, filesystem: Filesystem, _signal, mkfsOptions) {
        steps.push(['ensure', filesystem.name, mkfsOptions]);
        return volume;
      },
    },
    grower: { grow: async (_, filesystem) => void steps.push(['grow', filesystem.name]) },
    mounts: {
      holding: async () => present,
      mount: async ({ options }: MountRequest) => void steps.push(['mount', ...options]),
    },
  });
  const path = join(directory, 'some', 'where');
  const mountAt = (use: ReturnType<typeof used>) => filesystems.mountAt(path, pool, source, use, never);
  return { filesystems, pool, path, steps, mountAt };
}

const mountOf = (filesystem: string, ...options: string[]): Mount => ({
  target: '/t',
  root: '/',
  device: '7:0',
  filesystem,
  source: '/dev/ssd/v',
  options,
});

test('a filesystem is ensured, mounted as requested, and grown', async (t) => {
  const { path, steps, mountAt } = await node(t);
  await mountAt(used(ext4, 'noatime', 'context="system_u:object_r:container_file_t:s0:c1,c2"'));
  assert.deepEqual(steps, [
    ['ensure', 'ext4', ['-L', 'x']],
    ['mount', 'noatime', 'context="system_u:object_r:container_file_t:s0:c1,c2"'],
    ['grow', 'ext4'],
  ]);
  assert.ok((await stat(path)).isDirectory());
});

test('a copy of xfs can be mounted together with its source', async (t) => {
  const { steps, mountAt } = await node(t);
  await mountAt(used(xfs, 'noatime'));
  assert.deepEqual(steps[1], ['mount', 'noatime', 'nouuid']);
});

test('a read-only volume is mounted without journal replay and does not grow', async (t) => {
  for (const [filesystem, ...options] of [
    [ext4, 'ro', 'noload'],
    [xfs, 'nouuid', 'ro', 'norecovery'],
    [btrfs, 'ro', 'rescue=nologreplay'],
  ] as const) {
    const { steps, mountAt } = await node(t, { readOnly: true });
    await mountAt(used(filesystem));
    assert.deepEqual(steps.slice(1), [['mount', ...options]]);
  }
  const { steps, mountAt } = await node(t);
  await mountAt(used(ext4, 'noatime,ro'));
  assert.deepEqual(steps.slice(1), [['mount', 'noatime,ro']]);
});

test('a mounted filesystem is neither probed nor mounted again', async (t) => {
  const { steps, mountAt, filesystems, pool, path } = await node(t, { present: mountOf('ext4', 'ro') });
  await mountAt(used(ext4));
  assert.deepEqual(steps, []);
  assert.equal(await filesystems.isAt(path, pool.get('v') as Volume, used(ext4)), true);
});

test('a mounted filesystem of another kind than requested is refused', async (t) => {
  const { steps, mountAt, filesystems, pool, path } = await node(t, { present: mountOf('xfs', 'rw') });
  await assert.rejects(mountAt(used(ext4)), { name: 'FilesystemMismatch' });
  await assert.rejects(filesystems.isAt(path, pool.get('v') as Volume, used(btrfs)), { name: 'FilesystemMismatch' });
  assert.deepEqual(steps, []);
});
