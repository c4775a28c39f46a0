import assert from 'node:assert/strict';
import { test } from 'node:test';
import { InvalidInput } from '../../base/errors.ts';
import { deviceOf, isWrittenByMoorage, mountUnit, mountUnitName, unmountedUnit } from './systemd-units.ts';

const request = { source: '/dev/vg/data', target: '/mnt/pv/data', filesystem: 'ext4', options: ['noexec', 'noatime'] };

test("the name of a mount point's unit is what systemd-escape prints", () => {
  const names = {
    '/mnt/pv/data': 'mnt-pv-data.mount',
    '/mnt/pv/my-data_1.x:y': 'mnt-pv-my\\x2ddata_1.x:y.mount',
    '/.hidden/.too': '\\x2ehidden-.too.mount',
    '/mnt/pv/a b%c': 'mnt-pv-a\\x20b\\x25c.mount',
    '/mnt/pv/back\\slash': 'mnt-pv-back\\x5cslash.mount',
    '/mnt/pv/é': 'mnt-pv-\\xc3\\xa9.mount',
  };
  for (const [path, name] of Object.entries(names)) assert.equal(mountUnitName(path), name);
});

test('a path that cannot be a mount point of systemd is refused', () => {
  const paths = ['', '/', 'mnt/pv', '/mnt/../etc', '/mnt//pv', '/mnt/pv/', '/mnt/./pv', `/mnt/pv/${'-'.repeat(60)}`];
  for (const path of paths) assert.throws(() => mountUnitName(path), InvalidInput, path);
});

test('a unit mounts a device before the kubelet starts', () => {
  assert.equal(
    mountUnit(request),
    `# Written by Moorage: changes will be lost.
[Unit]
Description=Volume /mnt/pv/data
Before=kubelet.service k3s.service k3s-agent.service rke2-server.service rke2-agent.service k0scontroller.service k0sworker.service snap.microk8s.daemon-kubelite.service
# Without the mount there is no directory either: a pod waits instead of writing to the disk below.
OnFailure=moorage-unmounted@%N.service
OnSuccess=moorage-unmounted@%N.service
StartLimitIntervalSec=0

[Mount]
What=/dev/vg/data
Where=/mnt/pv/data
Type=ext4
Options=noexec,noatime,nofail

[Install]
WantedBy=multi-user.target
`,
  );
});

test('a percent sign is written twice, and spaces as they are', () => {
  const unit = mountUnit({ ...request, target: '/mnt/pv/50 %n', options: ['context=a%b'] });
  assert.match(unit, /^Where=\/mnt\/pv\/50 %%n$/m);
  assert.match(unit, /^Options=context=a%%b,nofail$/m);
});

test('a value that would change the meaning of the file is refused', () => {
  for (const value of ['/dev/vg/a\nOptions=suid', '/dev/vg/a\r', '/dev/vg/a\\', ' /dev/vg/a', '']) {
    assert.throws(() => mountUnit({ ...request, source: value }), InvalidInput, JSON.stringify(value));
  }
});

test('a unit says who wrote it and what it mounts', () => {
  const original = '[Unit]\nDescription=x\n[Mount]\n What = /dev/storage_bulk/50%% \nWhere=/mnt/pv/x\n';
  const units = [mountUnit(request), unmountedUnit.text, original, ''];
  assert.deepEqual(units.map(isWrittenByMoorage), [true, true, false, false]);
  assert.deepEqual(units.map(deviceOf), ['/dev/vg/data', undefined, '/dev/storage_bulk/50%', undefined]);
});
