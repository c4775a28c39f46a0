import { join } from 'node:path';
import { test } from 'node:test';
import { whyNotRoot } from '../native/scratch.ts';
import { ensureCsiSanity } from '../worlds/cluster/binaries.ts';
import { mustBeSane, neverOffered, notWithoutKubernetes } from './csi-sanity.ts';
import { StandaloneProcess } from './standalone-process.ts';

const native = { skip: whyNotRoot };
const program = await ensureCsiSanity();

for (const accessType of ['mount', 'block'] as const) {
  test(`csi-sanity passes on a directory of files, as ${accessType}`, native, async (t) => {
    const { socket: endpoint, directory } = await StandaloneProcess.onFiles(t);
    const dir = join(directory, 'sanity');
    await mustBeSane({ program, endpoint, dir, accessType }, [...neverOffered, ...notWithoutKubernetes]);
  });
}
