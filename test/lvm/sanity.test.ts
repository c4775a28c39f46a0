import { join } from 'node:path';
import { test } from 'node:test';
import { mustBeSane, neverOffered, notWithoutKubernetes } from '../sanity/csi-sanity.ts';
import { StandaloneProcess } from '../sanity/standalone-process.ts';
import { ensureCsiSanity } from '../worlds/cluster/binaries.ts';
import { command, disks, volumeGroup } from '../worlds/lvm/inside.ts';

const program = await ensureCsiSanity();
const skips = [...neverOffered, ...notWithoutKubernetes];

for (const accessType of ['mount', 'block'] as const) {
  test(`csi-sanity passes on thick LVM with copy-on-write snapshots, as ${accessType}`, async (t) => {
    const vg = await volumeGroup(t, { disks: disks() });
    const thick = { name: 'thick', 'volume-group': vg, default: true, 'spare-gb': 0, snapshots: 'copy-on-write' };
    const { socket: endpoint, directory } = await StandaloneProcess.start(t, [thick]);
    await mustBeSane({ program, endpoint, dir: join(directory, 'sanity'), accessType }, skips);
  });

  test(`csi-sanity passes on thin LVM, as ${accessType}`, async (t) => {
    const vg = await volumeGroup(t, { disks: disks() });
    await command('lvcreate', '-y', '--type', 'thin-pool', '-L', '400m', '-n', 'pool', vg);
    const thinPool = { name: 'pool', 'overprovision-ratio': 10 };
    const thin = { name: 'thin', type: 'thin', 'volume-group': vg, default: true, 'thin-pool': thinPool };
    const { socket: endpoint, directory } = await StandaloneProcess.start(t, [thin]);
    await mustBeSane({ program, endpoint, dir: join(directory, 'sanity'), accessType }, skips);
  });
}
