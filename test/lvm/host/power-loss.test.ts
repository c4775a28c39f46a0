import assert from 'node:assert/strict';
import { test } from 'node:test';
import { lvmWorld } from '../../../worlds/lvm/lvm-world.ts';

test('power loss keeps an acknowledged volume and its synced data', async (t) => {
  const world = await lvmWorld(t);
  await world.sh(`
    vgcreate -y vg ${world.disks.join(' ')}
    lvcreate -y -L 64m -n data vg
    mkfs.ext4 -q /dev/vg/data
    mkdir /data
    mount /dev/vg/data /data
    echo synced >/data/kept
    sync /data/kept
    lvcreate -y -L 64m -n last vg`);

  await world.powerLoss();
  await world.boot();

  assert.equal(await world.sh('lvs --noheadings -o lv_name vg | xargs'), 'data last');
  assert.equal(await world.sh('mkdir /data && mount /dev/vg/data /data && cat /data/kept'), 'synced');
});

test('power loss discards what was never written to a disk', async (t) => {
  const world = await lvmWorld(t);
  // The kernel does not write it by itself meanwhile, however long that takes.
  await world.sh(`
    echo 0 >/proc/sys/vm/dirty_writeback_centisecs
    mkfs.ext4 -q ${world.disks[0]}
    mkdir /data
    mount -o commit=100000 ${world.disks[0]} /data
    sync
    echo unsynced >/data/lost
    touch /etc/in-memory`);

  await world.powerLoss();
  await world.boot();

  assert.equal(await world.sh(`mkdir /data && mount ${world.disks[0]} /data && ls /data`), 'lost+found');
  assert.equal(
    await world.sh('ls /etc/in-memory 2>&1 || true'),
    "ls: cannot access '/etc/in-memory': No such file or directory",
  );
});
