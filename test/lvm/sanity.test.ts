import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { ensureCsiSanity } from '../../worlds/cluster/binaries.ts';
import { command, disks, volumeGroup } from '../../worlds/lvm/inside.ts';
import { mustPassCsiSanity, neverOffered, notWithoutKubernetes } from '../sanity/csi-sanity.ts';
import { StandaloneProcess } from '../sanity/standalone-process.ts';

const program = await ensureCsiSanity();
const skips = [...neverOffered, ...notWithoutKubernetes];

async function thick(t: TestContext): Promise<object[]> {
  const vg = await volumeGroup(t, { disks: disks() });
  return [{ name: 'thick', 'volume-group': vg, default: true, 'spare-gb': 0, snapshots: 'copy-on-write' }];
}

async function thin(t: TestContext): Promise<object[]> {
  const vg = await volumeGroup(t, { disks: disks() });
  await command('lvcreate', '-y', '--type', 'thin-pool', '-L', '400m', '-n', 'pool', vg);
  const thinPool = { name: 'pool', 'overprovision-ratio': 10 };
  return [{ name: 'thin', type: 'thin', 'volume-group': vg, default: true, 'thin-pool': thinPool }];
}

for (const [name, prepare] of Object.entries({ thick, thin })) {
  test(`csi-sanity passes on ${name} LVM`, async (t) => {
    const { socket: endpoint, directory } = await StandaloneProcess.start(t, () => prepare(t));
    await mustPassCsiSanity({ program, endpoint, dir: join(directory, 'sanity'), accessType: 'mount' }, skips);
  });
}
