import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readFile, rm, rmdir, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { systemClock } from '../../src/base/clock.ts';
import { deviceNumber } from '../../src/base/device-number.ts';
import { Listeners } from '../../src/base/listeners.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import { type Work, Workers } from '../../src/base/work.ts';
import type { IoLimits } from '../../src/csi/io-limits.ts';
import { deviceInUse } from '../../src/engine/luks-device.ts';
import { encryptedTag, isEncrypted } from '../../src/engine/names-and-tags.ts';
import { PodIoLimits } from '../../src/node/io-limits/io-limits.ts';
import { canLimitIo, findPodCgroup } from '../../src/node/io-limits/pod-cgroup.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { command, disks, volumeGroup } from '../../worlds/lvm/inside.ts';
import { undoAfter } from '../../worlds/lvm/undo.ts';
import { openEncrypted } from './cheap-encryption.ts';

const podUid = 'cafe0000-0000-4000-8000-000000000001';

/** The kernel's real cgroups, below a group of our own. */
async function cgroups(t: TestContext): Promise<string> {
  const root = await mkdtemp(join(tmpdir(), 'cgroup-'));
  await command('mount', '-t', 'cgroup2', 'none', root);
  undoAfter(t, async () => {
    await command('umount', root);
    await rmdir(root);
  });
  return root;
}

async function podCgroup(t: TestContext, root: string): Promise<string> {
  const parents = [join(root, 'kubepods'), join(root, 'kubepods', 'burstable')];
  const pod = join(root, 'kubepods', 'burstable', `pod${podUid}`);
  await mkdir(pod, { recursive: true });
  undoAfter(t, async () => {
    for (const directory of [pod, ...parents.reverse()]) await rmdir(directory);
  });
  return pod;
}

/** Publishes a volume, with a filesystem or raw, at the path that the kubelet uses for a pod. */
async function givenToPod(t: TestContext, kubeletDir: string, device: string, filesystem?: string): Promise<void> {
  const target = filesystem
    ? join(kubeletDir, 'pods', podUid, 'volumes', 'kubernetes.io~csi', 'pvc-1', 'mount')
    : join(kubeletDir, 'plugins', 'kubernetes.io', 'csi', 'volumeDevices', 'publish', 'pvc-1', podUid);
  await mkdir(dirname(target), { recursive: true });
  if (filesystem) {
    await command(`mkfs.${filesystem}`, '-q', device);
    await mkdir(target);
    await command('mount', device, target);
  } else {
    await writeFile(target, '');
    await command('mount', '--bind', device, target);
  }
  undoAfter(t, () => command('umount', target));
}

for (const [what, filesystem, tags] of [
  ['ext4', 'ext4', []],
  ['btrfs', 'btrfs', []],
  ['a raw device', undefined, []],
  ['an encrypted volume', 'ext4', [encryptedTag]],
] as const) {
  test(`a pod with ${what} gets its limits, then new ones, then none`, async (t) => {
    const root = await cgroups(t);
    assert.ok(await canLimitIo(root));
    const [disk = ''] = disks();
    const group = await volumeGroup(t, { disks: [disk] });
    await command('lvcreate', '-y', '-n', 'v1', '-L', '200m', group);
    const volume = { id: 'v1', devicePath: `/dev/${group}/v1`, sizeBytes: 1n, tags, readOnly: false, attr: '' };
    if (isEncrypted(volume)) await openEncrypted(t, volume);
    const device = deviceInUse(volume);
    const kubeletDir = await mkdtemp(join(tmpdir(), 'kubelet-'));
    undoAfter(t, () => rm(kubeletDir, { recursive: true }));
    await givenToPod(t, kubeletDir, device, filesystem);
    let limits: IoLimits = { writeBytesPerSecond: 1048576n, readOperationsPerSecond: 100n };
    const common = { kubeletDir, cgroupRoot: root, log: silentLog };
    const applied = new PodIoLimits({ limitsOf: () => limits, deviceOf: () => device, ...common });
    const changed = new Listeners<string>();
    const work: Work = {
      name: 'io-limits',
      watch: (queue) => [changed.add((volumeId) => queue.add(volumeId))],
      reconcile: (volumeId) => applied.apply(volumeId),
      concurrency: 1,
    };
    const workers = new Workers([work], { clock: systemClock, log: silentLog, random: Math.random });
    workers.start();
    undoAfter(t, () => workers.stop(0));
    const { rdev } = await stat(device, { bigint: true });
    const waitForLimits = (wanted: string) =>
      eventually(`io.max is ${wanted}`, async () => {
        const pod = await findPodCgroup(root, podUid);
        const present = pod && (await readFile(join(pod, 'io.max'), 'utf8').catch(() => undefined));
        return present?.trim() === wanted;
      });

    changed.notify('v1');
    await podCgroup(t, root); // the kubelet creates it a little later
    await waitForLimits(`${deviceNumber(rdev)} rbps=max wbps=1048576 riops=100 wiops=max`);

    limits = { readBytesPerSecond: 4096n };
    changed.notify('v1');
    await waitForLimits(`${deviceNumber(rdev)} rbps=4096 wbps=max riops=max wiops=max`);

    limits = {};
    changed.notify('v1');
    await waitForLimits('');
  });
}
