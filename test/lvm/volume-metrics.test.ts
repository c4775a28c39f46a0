import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { systemClock } from '../../src/base/clock.ts';
import { deviceInUse } from '../../src/engine/luks-device.ts';
import { encryptedTag } from '../../src/engine/names-and-tags.ts';
import type { Pool, Volume } from '../../src/engine/pool.ts';
import { exposition } from '../../src/metrics/metric.ts';
import { volumeMetrics } from '../../src/node/volume-metrics.ts';
import { command, disks, volumeGroup } from '../../worlds/lvm/inside.ts';
import { undoAfter } from '../../worlds/lvm/undo.ts';
import { openEncrypted } from './cheap-encryption.ts';

test('metrics show the size of each volume, and the usage of mounted ones', async (t) => {
  const [disk = ''] = disks();
  const group = await volumeGroup(t, { disks: [disk] });
  const kubeletDir = await mkdtemp(join(tmpdir(), 'kubelet-'));
  undoAfter(t, () => rm(kubeletDir, { recursive: true }));
  const volumes: Volume[] = [];
  const targetOf = (id: string) => join(kubeletDir, 'pods', 'uid', 'volumes', 'kubernetes.io~csi', id, 'mount');
  for (const [id, ...tags] of [
    ['mounted', 'moorage.dev/claim=shop/db'],
    ['encrypted', encryptedTag],
    ['idle'],
  ] as const) {
    await command('lvcreate', '-y', '-n', id, '-L', '64m', group);
    const devicePath = `/dev/${group}/${id}`;
    const volume: Volume = { id, sizeBytes: 67108864n, devicePath, tags, readOnly: false, attr: '-wi-a-----' };
    volumes.push(volume);
    if (id === 'encrypted') await openEncrypted(t, volume);
    const device = deviceInUse(volume);
    await command('mkfs.ext4', '-q', device);
    if (id === 'idle') continue;
    await mkdir(targetOf(id), { recursive: true });
    await command('mount', device, targetOf(id));
    undoAfter(t, () => command('umount', targetOf(id)));
  }

  const pool = { name: 'ssd', list: () => volumes } as unknown as Pool;
  const collaborators = { nodeName: 'a', pools: { all: () => [pool] }, directories: [kubeletDir], clock: systemClock };
  const shown = (await exposition(volumeMetrics(collaborators)))
    .split('\n')
    .filter((line) => line.startsWith('moorage_'));

  const labels = (volume: string, claim = '') => `node="a",device_class="ssd",volume="${volume}",claim="${claim}"`;
  const usedIn = async (id: string) => {
    const { blocks, bfree, bsize } = await statfs(targetOf(id));
    assert.ok(blocks > bfree);
    return (blocks - bfree) * bsize;
  };
  assert.deepEqual(shown, [
    `moorage_volume_size_bytes{${labels('mounted', 'shop/db')}} 67108864`,
    `moorage_volume_size_bytes{${labels('encrypted')}} 67108864`,
    `moorage_volume_size_bytes{${labels('idle')}} 67108864`,
    `moorage_volume_used_bytes{${labels('mounted', 'shop/db')}} ${await usedIn('mounted')}`,
    `moorage_volume_used_bytes{${labels('encrypted')}} ${await usedIn('encrypted')}`,
  ]);
});
