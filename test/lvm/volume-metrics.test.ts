import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { systemClock } from '../../src/base/clock.ts';
import type { Pool, Volume } from '../../src/engine/pool.ts';
import { exposition } from '../../src/metrics/metric.ts';
import { volumeMetrics } from '../../src/node/volume-metrics.ts';
import { command, disks, volumeGroup } from '../../worlds/lvm/inside.ts';
import { undoAfter } from '../../worlds/lvm/undo.ts';

test('metrics show the size of each volume, and the usage of mounted ones', async (t) => {
  const [disk = ''] = disks();
  const group = await volumeGroup(t, { disks: [disk] });
  const kubeletDir = await mkdtemp(join(tmpdir(), 'kubelet-'));
  undoAfter(t, () => rm(kubeletDir, { recursive: true }));
  const volumes: Volume[] = [];
  for (const id of ['mounted', 'idle']) {
    await command('lvcreate', '-y', '-n', id, '-L', '64m', group);
    const devicePath = `/dev/${group}/${id}`;
    const tags = id === 'mounted' ? ['moorage.dev/claim=shop/db'] : [];
    volumes.push({ id, sizeBytes: 67108864n, devicePath, tags, readOnly: false, attr: '-wi-a-----' });
    await command('mkfs.ext4', '-q', devicePath);
  }
  const target = join(kubeletDir, 'pods', 'uid', 'volumes', 'kubernetes.io~csi', 'pvc-1', 'mount');
  await mkdir(target, { recursive: true });
  await command('mount', `/dev/${group}/mounted`, target);
  undoAfter(t, () => command('umount', target));

  const pool = { name: 'ssd', list: () => volumes } as unknown as Pool;
  const collaborators = { nodeName: 'a', pools: { all: () => [pool] }, directories: [kubeletDir], clock: systemClock };
  const shown = (await exposition(volumeMetrics(collaborators)))
    .split('\n')
    .filter((line) => line.startsWith('moorage_'));

  const labels = 'node="a",device_class="ssd",volume="mounted",claim="shop/db"';
  const { blocks, bfree, bsize } = await statfs(target);
  assert.ok(blocks > bfree);
  assert.deepEqual(shown, [
    `moorage_volume_size_bytes{${labels}} 67108864`,
    'moorage_volume_size_bytes{node="a",device_class="ssd",volume="idle",claim=""} 67108864',
    `moorage_volume_used_bytes{${labels}} ${(blocks - bfree) * bsize}`,
  ]);
});
