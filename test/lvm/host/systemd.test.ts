import assert from 'node:assert/strict';
import { test } from 'node:test';
import { lvmWorld } from '../../../worlds/lvm/lvm-world.ts';

test('a machine boots systemd and keeps its root filesystem', async (t) => {
  const world = await lvmWorld(t, { systemd: true });
  assert.equal(await world.sh('cat /proc/1/comm; systemctl is-system-running'), 'systemd\nrunning');
  await world.sh(`
    vgcreate -q -y vg ${world.disks[0]}
    lvcreate -q -y -L 64m -n data vg
    echo kept >/etc/kept
    sync`);

  for (const stop of [() => world.machine.powerOff(), () => world.powerLoss()]) {
    await stop();
    await world.boot();
    assert.equal(await world.sh('systemctl is-system-running; cat /etc/kept'), 'running\nkept');
    await world.sh('systemctl start dev-vg-data.device'); // waits for it: udev activates the volume in the background
  }
});
