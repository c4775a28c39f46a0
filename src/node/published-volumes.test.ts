import assert from 'node:assert/strict';
import { access, chmod, mkdir, mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { Publication } from '../csi/node-volumes.ts';
import type { BindRequest, MountRequest } from '../storage/mounts.ts';
import type { Pool, VolumeId } from '../storage/pool.ts';
import { Pools } from '../storage/pools.ts';
import { InMemoryPool } from './in-memory-pool.ts';
import { PublishedVolumes } from './published-volumes.ts';

const never = new AbortController().signal;
const settings = { mkfsOptions: [], rootMode: 0o2777, rootOwner: { uid: 0, gid: 0 } };
const isRoot = process.getuid?.() === 0;

/** Nothing is really mounted or formatted: the directory that stands for the mount is there to look at. */
class RecordingMounts {
  readonly done: (MountRequest | BindRequest | { readonly unmounted: string })[] = [];

  async mount(request: MountRequest): Promise<void> {
    this.done.push(request);
  }

  async bind(request: BindRequest): Promise<void> {
    this.done.push(request);
  }

  async unmount(target: string): Promise<void> {
    this.done.push({ unmounted: target });
  }
}

async function node(t: TestContext) {
  const directory = await mkdtemp(join(tmpdir(), 'moorage-node-'));
  t.after(() => rm(directory, { recursive: true }));
  const pool = new InMemoryPool('ssd', 4096n);
  await pool.create({ id: 'v', sizeBytes: 1n, tags: [] });
  const mounts = new RecordingMounts();
  const formatted: string[] = [];
  const formatter = {
    async ensure(within: Pool, id: VolumeId, filesystem: string) {
      formatted.push(filesystem);
      const volume = within.get(id);
      assert.ok(volume);
      return volume;
    },
  };
  const targetPath = join(directory, 'pod', 'mount');
  const publication: Publication = {
    volumeId: 'v',
    targetPath,
    stagingPath: undefined,
    readOnly: false,
    exclusive: false,
    ephemeral: undefined,
    podUid: undefined,
    use: { kind: 'filesystem', filesystem: 'ext4', mountFlags: ['noatime'], settings },
  };
  const volumes = new PublishedVolumes({ pools: new Pools([pool], 'ssd'), formatter, mounts });
  return { volumes, publication, targetPath, mounts, formatted };
}

async function modeOf(path: string): Promise<number> {
  return (await stat(path)).mode & 0o7777;
}

test('a filesystem is made sure of, then mounted', async (t) => {
  const { volumes, publication, targetPath, mounts, formatted } = await node(t);
  await volumes.publish(publication, never);
  assert.deepEqual(formatted, ['ext4']);
  assert.deepEqual(mounts.done, [
    { source: '/dev/ssd/v', target: targetPath, filesystem: 'ext4', options: ['noatime'], readOnly: false },
  ]);
});

test('read-only is a matter of the target, the needs of xfs one of the mount', async (t) => {
  const { volumes, publication, mounts } = await node(t);
  const use = { kind: 'filesystem', filesystem: 'xfs', mountFlags: ['noatime'], settings } as const;
  await volumes.publish({ ...publication, readOnly: true, use }, never);
  const { options, readOnly } = mounts.done[0] as MountRequest;
  assert.deepEqual({ options, readOnly }, { options: ['noatime', 'nouuid'], readOnly: true });
});

test('a raw volume is bound to a file and never formatted', async (t) => {
  const { volumes, publication, targetPath, mounts, formatted } = await node(t);
  await volumes.publish({ ...publication, use: { kind: 'block' } }, never);
  assert.deepEqual(formatted, []);
  assert.deepEqual(mounts.done, [{ source: '/dev/ssd/v', target: targetPath, readOnly: false }]);
  assert.ok((await stat(targetPath)).isFile());
  await volumes.publish({ ...publication, use: { kind: 'block' } }, never);
});

test('a volume of another node is refused', async (t) => {
  const { volumes, publication } = await node(t);
  await assert.rejects(volumes.publish({ ...publication, volumeId: 'w' }, never), {
    code: 'NotFound',
    message: /^this node has no volume w; check/,
  });
});

test('every user can write to a fresh filesystem', { skip: !isRoot && 'needs root' }, async (t) => {
  const { volumes, publication, targetPath } = await node(t);
  await mkdir(join(targetPath, 'lost+found'), { recursive: true });
  await chmod(targetPath, 0o755);
  await volumes.publish(publication, never);
  assert.equal(await modeOf(targetPath), 0o2777);
});

test('the mode that somebody chose is kept', { skip: !isRoot && 'needs root' }, async (t) => {
  const { volumes, publication, targetPath } = await node(t);
  await mkdir(targetPath, { recursive: true });
  await chmod(targetPath, 0o700);
  await volumes.publish(publication, never);
  assert.equal(await modeOf(targetPath), 0o700);

  await chmod(targetPath, 0o755);
  await writeFile(join(targetPath, 'data'), '');
  await volumes.publish(publication, never);
  assert.equal(await modeOf(targetPath), 0o755, 'it is in use');
});

test('unpublishing removes the mount point, and can be repeated', async (t) => {
  const { volumes, publication, targetPath, mounts } = await node(t);
  await volumes.publish(publication, never);
  await volumes.unpublish('v', targetPath, never);
  await assert.rejects(access(targetPath), { code: 'ENOENT' });
  await volumes.unpublish('v', targetPath, never);
  assert.deepEqual(mounts.done.slice(1), [{ unmounted: targetPath }, { unmounted: targetPath }]);
});

test('unpublishing never removes what is in the mount point', async (t) => {
  const { volumes, publication, targetPath } = await node(t);
  await volumes.publish(publication, never);
  await writeFile(join(targetPath, 'data'), 'precious');
  await assert.rejects(volumes.unpublish('v', targetPath, never), { code: 'ENOTEMPTY' });
  await access(join(targetPath, 'data'));
});
