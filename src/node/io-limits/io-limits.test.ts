import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { podsWith } from './io-limits.ts';
import { canLimitIo, findPodCgroup, ioMaxOf, setIoMax } from './pod-cgroup.ts';

const uid = '5f1a0c1e-0000-4000-8000-000000000001';

test('the pods of a device are determined from the kubelet mounts', () => {
  const at = (target: string, isBlock = false, device = '253:7') => ({ device, target, isBlock });
  const csi = '/var/lib/kubelet/plugins/kubernetes.io/csi';
  const mounted = [
    at('/var/lib/kubelet/pods/one/volumes/kubernetes.io~csi/pvc-1/mount'),
    at('/var/lib/kubelet/pods/two/volumes/kubernetes.io~csi/pvc-1/mount'),
    at('/var/lib/kubelet/pods/other/volumes/kubernetes.io~csi/pvc-2/mount', false, '253:8'),
    at(`${csi}/topolvm.io/0123/globalmount`),
    at(`${csi}/volumeDevices/publish/pvc-1/three`, true),
  ];
  assert.deepEqual([...podsWith('253:7', mounted, '/var/lib/kubelet')], ['one', 'two', 'three']);
});

for (const path of [
  `kubepods/pod${uid}`,
  `kubepods/burstable/pod${uid}`,
  `kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod${uid.replaceAll('-', '_')}.slice`,
]) {
  test(`a pod's control group is found as ${path}`, async (t) => {
    const root = await mkdtemp(join(tmpdir(), 'moorage-cgroup-'));
    t.after(() => rm(root, { recursive: true }));
    assert.equal(await findPodCgroup(root, uid), undefined);
    await mkdir(join(root, path), { recursive: true });
    assert.equal(await findPodCgroup(root, uid), join(root, path));
  });
}

test('limits are written to io.max of the control group and read back', async (t) => {
  const root = await mkdtemp(join(tmpdir(), 'moorage-cgroup-'));
  t.after(() => rm(root, { recursive: true }));
  assert.equal(await canLimitIo(root), false, 'there is no cgroup v2');
  await writeFile(join(root, 'cgroup.controllers'), 'cpuset cpu io memory\n');
  assert.equal(await canLimitIo(root), true);
  const pod = join(root, 'kubepods', 'pod');
  await mkdir(pod, { recursive: true });
  assert.equal(await ioMaxOf(pod, '253:7'), undefined);
  await setIoMax(root, pod, '253:7', 'rbps=1 wbps=max riops=max wiops=max');
  assert.equal(await ioMaxOf(pod, '253:7'), 'rbps=1 wbps=max riops=max wiops=max');
  assert.equal(await ioMaxOf(pod, '253:70'), undefined);
  for (const parent of [root, join(root, 'kubepods')]) {
    assert.equal(await readFile(join(parent, 'cgroup.subtree_control'), 'utf8'), '+io');
  }
});
