import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { open, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { ext4 } from '../../src/filesystem/ext4.ts';
import { type Filesystem, filesystems } from '../../src/filesystem/filesystem.ts';
import { superblockReader } from '../../src/filesystem/probe.ts';
import { mounted, mounts, node, signal, sizeBytes, totalBytes } from './node-of-test.ts';
import { scratchFilesystem, whyNotRoot } from './scratch.ts';

/** The kernel grows a mounted ext4 only with CAP_SYS_RESOURCE, which root in a container may lack. */
const whyNoGrowth = (filesystem: Filesystem) =>
  whyNotRoot || (filesystem === ext4 && !mayExceedLimits() && 'needs CAP_SYS_RESOURCE; test/lvm has the same');

for (const filesystem of filesystems) {
  test(`${filesystem.name}: grows while it is written to, and after its volume was grown unmounted`, {
    skip: whyNoGrowth(filesystem),
  }, async (t) => {
    const { data, pool, start, stagingPath, targetPath, publication, growth, ran } = await node(t);
    const use = mounted(filesystem);
    const volumes = start();
    const staging = { volumeId: data, stagingPath, use };
    await volumes.stage(staging, signal);
    await volumes.publish({ ...publication(use), readOnly: true }, signal);
    const before = await totalBytes(targetPath);
    {
      await using file = await open(join(stagingPath, 'file'), 'w');
      await file.write('before ');
      await pool.grow(data, 2n * sizeBytes, signal);
      ran();
      assert.equal(await volumes.grow(growth, signal), 2n * sizeBytes, 'even for a read-only pod');
      assert.equal(ran().length, 1);
      await file.write('after');
    }
    const online = await totalBytes(targetPath);
    assert.ok(online - before > sizeBytes / 2n, `${before} became ${online}`);
    assert.equal(await readFile(join(targetPath, 'file'), 'utf8'), 'before after');
    await volumes.grow(growth, signal); // repeated

    await volumes.unpublish(data, targetPath, signal);
    await volumes.unstage(data, stagingPath, signal);
    await pool.grow(data, 3n * sizeBytes, signal);
    ran();
    await volumes.stage(staging, signal);
    assert.equal(ran().length, 2, 'mount and growth');
    assert.ok((await totalBytes(stagingPath)) - online > sizeBytes / 2n);
    await volumes.unstage(data, stagingPath, signal);
    const { devicePath = '' } = pool.get(data) ?? {};
    const superblock = await superblockReader()(devicePath, filesystem, signal);
    assert.ok(superblock && superblock !== 'busy');
    assert.equal(superblock.sizeBytes, 3n * sizeBytes);
    ran();
    await volumes.stage(staging, signal);
    assert.deepEqual(ran(), ['mount'], 'nothing is left to grow');
  });

  test(`${filesystem.name}: a copy can be larger than its source, or read-only, while the source is in use`, {
    skip: whyNoGrowth(filesystem),
  }, async (t) => {
    const onXfs = await scratchFilesystem(t, 'xfs', 2048);
    const { data, directory, pool, start, stagingPath } = await node(t, { directory: onXfs });
    const use = mounted(filesystem);
    const volumes = start();
    await volumes.stage({ volumeId: data, stagingPath, use }, signal);
    await writeFile(join(stagingPath, 'file'), 'copied');
    await using _writer = await open(join(stagingPath, 'open'), 'w'); // its journal is not empty

    await pool.snapshot(data, { id: 'large', tags: [], sizeBytes: 2n * sizeBytes, access: 'rw' }, signal);
    await pool.snapshot(data, { id: 'frozen', tags: [], access: 'ro' }, signal);
    for (const [volumeId, options] of [
      ['large', []],
      ['frozen', ['ro']],
    ] as const) {
      const at = join(directory, volumeId);
      await volumes.stage({ volumeId, stagingPath: at, use }, signal);
      await volumes.stage({ volumeId, stagingPath: at, use }, signal); // repeated
      assert.equal(await readFile(join(at, 'file'), 'utf8'), 'copied');
      const present = (await mounts.at(at))?.options ?? [];
      assert.ok(options.every((option) => present.includes(option)));
    }
    assert.ok((await totalBytes(join(directory, 'large'))) > (sizeBytes * 3n) / 2n);
    await assert.rejects(writeFile(join(directory, 'frozen', 'file'), ''), { code: 'EROFS' });
  });
}

function mayExceedLimits(): boolean {
  const [, bits = '0'] = /^CapEff:\s*(\w+)$/m.exec(readFileSync('/proc/self/status', 'utf8')) ?? [];
  return ((BigInt(`0x${bits}`) >> 24n) & 1n) === 1n;
}
