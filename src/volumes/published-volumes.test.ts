import assert from 'node:assert/strict';
import { access, mkdir, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { exists } from '../base/exists.ts';
import { silentLog } from '../base/testing/silent-log.ts';
import type { Growth, PreparedUse, VolumeStats } from '../csi/node/node-volumes.ts';
import { createdTag, rawTag, unusedTag } from '../engine/names-and-tags.ts';
import { BeingOpened, Pools } from '../engine/pools.ts';
import { EphemeralVolumes } from './ephemeral-volumes.ts';
import { PublishedVolumes } from './published-volumes.ts';
import { node, onExt4 } from './testing/in-memory-node.ts';

const never = new AbortController().signal;
const block: PreparedUse = { kind: 'block' };

test('a filesystem is mounted once for the node, and bound for each pod', async (t) => {
  const { volumes, publication, stagingPath, targetPath, mounts } = await node(t);
  await volumes.stage({ volumeId: 'v', stagingPath, use: onExt4 }, never);
  assert.deepEqual(mounts.steps, [`mount ${stagingPath}`]);
  await volumes.publish(publication, never);
  await volumes.publish({ ...publication, targetPath: `${targetPath}2`, readOnly: true }, never);
  const bound = mounts.steps.filter((step) => step.startsWith('bind'));
  assert.deepEqual(bound, [`bind ${stagingPath} at ${targetPath}`, `bind ${stagingPath} at ${targetPath}2 to read`]);

  await volumes.unpublish('v', targetPath, never);
  await volumes.unstage('v', stagingPath, never);
  assert.deepEqual([...mounts.table.keys()], [`${targetPath}2`]);
});

test('onPublished is called for each published volume', async (t) => {
  const { volumes, publication, stagingPath, reported } = await node(t);
  await volumes.stage({ volumeId: 'v', stagingPath, use: onExt4 }, never);
  assert.deepEqual(reported, []);
  await volumes.publish(publication, never);
  await assert.rejects(volumes.publish({ ...publication, volumeId: 'w' }, never));
  assert.deepEqual(reported, ['v']);
});

test('onPrepared is called after each attempt to mount or grow a filesystem, not for raw or inline volumes', async (t) => {
  const { volumes, publication, stagingPath, targetPath, mounts, prepared } = await node(t);
  const staging = { volumeId: 'v', stagingPath, use: onExt4 };
  const refusal = new Error('holds swap');
  t.mock.method(mounts, 'mountAt', async () => Promise.reject(refusal), { times: 1 });
  await assert.rejects(volumes.stage(staging, never), refusal);
  await volumes.stage(staging, never);
  await volumes.publish(publication, never); // it is staged already
  assert.deepEqual(prepared.splice(0), ['v: holds swap', 'v']);

  const growth = { volumeId: 'v', volumePath: targetPath, stagingPath, isBlock: undefined };
  t.mock.method(mounts, 'grow', async () => Promise.reject(new Error('resize2fs failed')), { times: 1 });
  await assert.rejects(volumes.grow(growth, never));
  await volumes.grow(growth, never);
  assert.deepEqual(prepared.splice(0), ['v: resize2fs failed', 'v']);

  await volumes.unstage('v', stagingPath, never);
  await volumes.publish({ ...publication, targetPath: `${targetPath}2` }, never);
  assert.deepEqual(prepared.splice(0), ['v'], 'publishing had to stage it again');

  await volumes.stage({ ...staging, use: block }, never);
  await volumes.publish({ ...publication, targetPath: `${targetPath}3`, stagingPath: undefined }, never);
  await assert.rejects(volumes.stage({ ...staging, volumeId: 'missing' }, never));
  assert.deepEqual(prepared, []);
});

for (const [tag, refusal] of [
  ['moorage.dev/moving=uid', /volume v moves to another node and cannot be used here any more/],
  ['moorage.dev/receiving=uid', /volume v moves to this node and does not have all its data yet/],
] as const) {
  test(`a volume with the tag ${tag} cannot be staged or published; what is mounted stays`, async (t) => {
    const { volumes, publication, stagingPath, targetPath, mounts, pool, givenBack } = await node(t);
    await volumes.publish(publication, never);
    await pool.addTags('v', [tag]);
    const refused = { code: 'FailedPrecondition', message: refusal };
    await assert.rejects(volumes.stage({ volumeId: 'v', stagingPath, use: onExt4 }, never), refused);
    await assert.rejects(volumes.stage({ volumeId: 'v', stagingPath, use: block }, never), refused);
    await assert.rejects(volumes.publish({ ...publication, targetPath: `${targetPath}2` }, never), refused);
    assert.deepEqual([...mounts.table.keys()], [stagingPath, targetPath]);
    assert.deepEqual(givenBack, []);
    await volumes.unpublish('v', targetPath, never);
    await volumes.unstage('v', stagingPath, never);
    assert.deepEqual(givenBack, ['v', 'v']);
  });
}

test('a staged volume is closed for a move once no pod has it; publishing stages it again', async (t) => {
  const { volumes, publication, directory, targetPath, mounts } = await node(t);
  const stagingPath = join(directory, 'plugins/kubernetes.io/csi/topolvm.io/v/globalmount');
  await volumes.stage({ volumeId: 'v', stagingPath, use: onExt4 }, never);
  await volumes.publish({ ...publication, stagingPath }, never);
  await volumes.close('v', never);
  assert.deepEqual([...mounts.table.keys()], [stagingPath, targetPath], 'a pod has it');
  await volumes.unpublish('v', targetPath, never);
  await volumes.close('v', never);
  assert.deepEqual([...mounts.table.keys()], []);
  await volumes.publish({ ...publication, stagingPath }, never);
  assert.deepEqual([...mounts.table.keys()], [stagingPath, targetPath]);
});

test('publishing stages a volume that is not staged or lost its staging mount', async (t) => {
  const { volumes, publication, stagingPath, targetPath, mounts } = await node(t);
  await volumes.publish(publication, never);
  assert.deepEqual(mounts.steps, [`mount ${stagingPath}`, `bind ${stagingPath} at ${targetPath}`]);
});

test('without a staging path a volume is mounted for the pod directly', async (t) => {
  const { volumes, publication, targetPath, mounts } = await node(t);
  await volumes.publish({ ...publication, stagingPath: undefined, readOnly: true }, never);
  assert.deepEqual(mounts.steps, [`mount ${targetPath}`, `protect ${targetPath}`]);
});

test('a raw volume is not staged, but bound to a file, and marked', async (t) => {
  const { pool, volumes, publication, stagingPath, targetPath, mounts } = await node(t);
  await volumes.stage({ volumeId: 'v', stagingPath, use: block }, never);
  for (let i = 0; i < 2; i++) await volumes.publish({ ...publication, use: block, readOnly: true }, never);
  const bound = `bind /dev/ssd/v at ${targetPath} to read`;
  assert.deepEqual(mounts.steps, [bound, bound]);
  assert.ok((await stat(targetPath)).isFile());
  assert.ok(pool.get('v')?.tags.includes(rawTag));
});

test('a volume of another node is refused', async (t) => {
  const { volumes, publication, stagingPath } = await node(t);
  const why = { code: 'NotFound', message: /^volume w is not on the disks of this node; check/ };
  await assert.rejects(volumes.publish({ ...publication, volumeId: 'w' }, never), why);
  await assert.rejects(volumes.publish({ ...publication, volumeId: 'w', use: block }, never), why);
  for (const use of [onExt4, block])
    await assert.rejects(volumes.stage({ volumeId: 'w', stagingPath, use }, never), why);
});

const unused = [createdTag, unusedTag, 'moorage.dev/volume=pvc-1'];

test('a volume that was proven to be unused is never used again, also after a restart', async (t) => {
  const { pool, pools, volumes, publication, stagingPath, mounts, encrypted } = await node(t);
  await pool.create({ id: 'new', sizeBytes: 1n, tags: unused });
  assert.equal(await volumes.retireIfUnused('new', never), true);
  assert.equal(await volumes.retireIfUnused('new', never), true, 'the answer may have been lost');
  const ephemeral = new EphemeralVolumes({ pools, log: silentLog });
  const probe = async () => ({ kind: 'empty' }) as const;
  const parts = { pools, filesystems: mounts, grower: mounts, mounts, ephemeral, encrypted, probe };
  const restarted = new PublishedVolumes(parts);
  for (const each of [volumes, restarted]) {
    const why = { code: 'FailedPrecondition', message: /^volume new is about to be removed: .* gets a new volume$/ };
    for (const use of [onExt4, block]) {
      await assert.rejects(each.stage({ volumeId: 'new', stagingPath, use }, never), why);
      await assert.rejects(each.publish({ ...publication, volumeId: 'new', use }, never), why);
    }
  }
  assert.deepEqual(mounts.steps, []);
});

test('a volume that may contain data is never retired', async (t) => {
  const { pool, volumes, content, stagingPath } = await node(t);
  const tags: Readonly<Record<string, readonly string[]>> = {
    'no-tags': [],
    old: [createdTag], // of a version that did not record first uses
    formatted: [...unused, 'moorage.dev/filesystem=ext4'],
    raw: [...unused, rawTag],
    encrypted: [...unused, 'moorage.dev/encrypted=luks2'],
    adopted: [...unused, 'moorage.dev/adopted'],
    copy: [...unused, 'moorage.dev/source=v'],
  };
  for (const [id, each] of Object.entries(tags)) await pool.create({ id, sizeBytes: 1n, tags: each });
  await pool.snapshot('v', { id: 'snapshot', tags: unused, access: 'ro' });
  await pool.snapshot('v', { id: 'clone', tags: unused, access: 'rw' });
  for (const id of [...Object.keys(tags), 'snapshot', 'clone']) {
    assert.equal(await volumes.retireIfUnused(id, never), false, id);
    if (id !== 'encrypted') await volumes.stage({ volumeId: id, stagingPath, use: onExt4 }, never);
  }

  await pool.create({ id: 'new', sizeBytes: 1n, tags: unused });
  for (const found of [
    { kind: 'found', filesystem: 'ext4', uuid: '' }, // by TopoLVM, which sets no tags
    { kind: 'unknown', reason: 'IO error' },
  ] as const) {
    content.found = found;
    assert.equal(await volumes.retireIfUnused('new', never), false, found.kind);
  }
  await volumes.stage({ volumeId: 'new', stagingPath, use: onExt4 }, never);
  await assert.rejects(volumes.retireIfUnused('missing', never), { code: 'NotFound' });
});

test('a path of the wrong type is refused and not touched', async (t) => {
  const { volumes, publication, targetPath } = await node(t);
  await mkdir(targetPath, { recursive: true });
  await assert.rejects(volumes.publish({ ...publication, use: block }, never), {
    code: 'FailedPrecondition',
    message: `${targetPath} must be a file, but something else is there; move it away`,
  });
  await rm(targetPath, { recursive: true });
  await writeFile(targetPath, 'precious');
  await assert.rejects(volumes.publish(publication, never), {
    code: 'FailedPrecondition',
    message: /must be a directory/,
  });
  await assert.rejects(volumes.unpublish('v', targetPath, never), {
    code: 'FailedPrecondition',
    message: /contains data/,
  });
  await access(targetPath);
});

test('unpublishing and unstaging can be retried, also for an unknown volume', async (t) => {
  const { volumes, publication, stagingPath, targetPath } = await node(t);
  await volumes.publish(publication, never);
  for (let i = 0; i < 2; i++) {
    await volumes.unpublish('v', targetPath, never);
    await volumes.unstage('v', stagingPath, never);
  }
  assert.equal(await exists(targetPath), false);
  await volumes.unpublish('unknown', join(targetPath, 'no', 'such'), never);
  await volumes.unstage('unknown', join(stagingPath, 'no', 'such'), never);
});

test('unpublishing never removes data in the mount point', async (t) => {
  const { volumes, publication, targetPath } = await node(t);
  await volumes.publish(publication, never);
  await writeFile(join(targetPath, 'data'), 'precious');
  await assert.rejects(volumes.unpublish('v', targetPath, never), {
    code: 'FailedPrecondition',
    message: /is no longer a mount point but contains data/,
  });
  await access(join(targetPath, 'data'));
});

test('a volume for one pod at a time is refused to a second, until the first is gone', async (t) => {
  const { volumes, publication, targetPath, mounts } = await node(t);
  const exclusive = { ...publication, exclusive: true };
  const second = { ...exclusive, targetPath: `${targetPath}2` };
  await volumes.publish(exclusive, never);
  await volumes.publish(exclusive, never);
  await assert.rejects(volumes.publish(second, never), {
    code: 'FailedPrecondition',
    message: /^volume v is for one pod at a time and is already published at .*mount; wait/,
  });
  await volumes.publish({ ...publication, targetPath: `${targetPath}3` }, never); // not exclusive, so allowed
  await volumes.unpublish('v', `${targetPath}3`, never);
  mounts.table.delete(targetPath); // as if unmounted by hand
  await volumes.publish(second, never);
  await volumes.unpublish('v', second.targetPath, never);
  await volumes.publish(exclusive, never);
});

test('a slow volume delays neither its own stats nor other volumes', async (t) => {
  const { volumes, publication, mounts, pool, stagingPath } = await node(t);
  await pool.create({ id: 'w', sizeBytes: 1n, tags: [] });
  const slow = Promise.withResolvers<void>();
  const { mountAt } = mounts;
  mounts.mountAt = async (path, within, volume, use, signal) => {
    if (volume.id === 'v') await slow.promise;
    return mountAt(path, within, volume, use, signal);
  };
  const publishing = volumes.publish(publication, never);
  const waiting = volumes.unstage('v', stagingPath, never);
  await volumes.publish({ ...publication, volumeId: 'w', stagingPath: `${stagingPath}-w` }, never);
  await volumes.stats('v', '/proc', never);
  assert.equal(mounts.steps.filter((step) => step === `unmount ${stagingPath}`).length, 0);
  slow.resolve();
  await Promise.all([publishing, waiting]);
});

test('a call that is aborted while it waits changes nothing', async (t) => {
  const { volumes, publication, mounts } = await node(t);
  const slow = Promise.withResolvers<void>();
  const { mountAt } = mounts;
  mounts.mountAt = async (...args) => {
    await slow.promise;
    return mountAt(...args);
  };
  const first = volumes.publish(publication, never);
  const leaving = new AbortController();
  const second = volumes.unpublish('v', publication.targetPath, leaving.signal);
  leaving.abort(new Error('gone'));
  await assert.rejects(second, /gone/);
  slow.resolve();
  await first;
  assert.ok(mounts.table.has(publication.targetPath));
});

test('a filesystem grows where it is mounted, preferably at its staging path', async (t) => {
  const { volumes, publication, stagingPath, targetPath, mounts } = await node(t);
  await volumes.publish({ ...publication, readOnly: true }, never);
  mounts.steps.length = 0;
  const growth: Growth = {
    volumeId: 'v',
    volumePath: targetPath,
    stagingPath,
    isBlock: undefined,
  };
  assert.equal(await volumes.grow(growth, never), 4096n);
  assert.deepEqual(mounts.steps, [`grow ext4 of v at ${stagingPath}`]);
  await assert.rejects(volumes.grow({ ...growth, stagingPath: undefined }, never), {
    code: 'FailedPrecondition',
    message: /mounted read-only at .*mount and cannot grow/,
  });
});

test('a volume that is not at the path cannot grow there', async (t) => {
  const { volumes, targetPath } = await node(t);
  const growth = { volumeId: 'v', volumePath: targetPath, stagingPath: undefined };
  const filesystem: Growth = { ...growth, isBlock: false };
  await assert.rejects(volumes.grow(filesystem, never), { code: 'NotFound', message: /is not at / });
  await assert.rejects(volumes.grow({ ...filesystem, volumePath: '/proc' }, never), { code: 'NotFound' });
  await assert.rejects(volumes.grow({ ...filesystem, volumeId: 'w' }, never), { code: 'NotFound' });
  assert.equal(await volumes.grow({ ...growth, isBlock: true }, never), 4096n, 'a raw device has its size already');
});

test('concurrent stats of a hung disk share one call, and each caller may leave', async (t) => {
  const { volumes: _, ...others } = await node(t);
  let looks = 0;
  const answer = Promise.withResolvers<VolumeStats>();
  const look = async () => {
    looks += 1;
    return answer.promise;
  };
  const pools = new Pools([others.pool], 'ssd');
  const ephemeral = new EphemeralVolumes({ pools, log: silentLog });
  const { mounts, encrypted } = others;
  const probe = async () => others.content.found;
  const volumes = new PublishedVolumes({
    pools,
    filesystems: mounts,
    grower: mounts,
    mounts,
    ephemeral,
    encrypted,
    probe,
    look,
  });
  const impatient = new AbortController();
  const [left, patient] = [volumes.stats('v', '/v', impatient.signal), volumes.stats('v', '/v', never)];
  impatient.abort();
  await assert.rejects(left, { name: 'AbortError' });
  assert.equal(looks, 1);
  const found: VolumeStats = { usage: [], condition: { isAbnormal: false, message: '' } };
  answer.resolve(found);
  assert.equal(await patient, found);
  await volumes.stats('v', '/v', never);
  assert.equal(looks, 2);
});

test('a volume is not reported missing while its class may be one that cannot be served now', async (t) => {
  const { volumes, pools, pool, stagingPath } = await node(t);
  const staging = { volumeId: 'elsewhere', stagingPath, use: onExt4 };
  await assert.rejects(volumes.stage(staging, never), {
    code: 'NotFound',
    message: /^volume elsewhere is not on the disks of this node/,
  });
  pools.become({ pools: [pool], defaultClass: 'ssd', unavailable: new Map([['thin', new BeingOpened()]]) });
  await assert.rejects(volumes.stage(staging, never), {
    code: 'Unavailable',
    message: /^volume elsewhere may be in device class thin, which cannot be served now: it is still being opened/,
  });
  await volumes.stage({ ...staging, volumeId: 'v' }, never);
});
