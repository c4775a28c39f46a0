import { join } from 'node:path';
import { test } from 'node:test';
import { ensureCsiSanity } from '../../worlds/cluster/binaries.ts';
import { whyNotRoot } from '../native/scratch.ts';
import { mustPassCsiSanity, neverOffered, notWithoutKubernetes } from './csi-sanity.ts';
import { StandaloneProcess } from './standalone-process.ts';

const native = { skip: whyNotRoot };
const program = await ensureCsiSanity();

/** Each filesystem and each access type, with and without block sharing between copies. */
const matrix = [
  ['ext4', 'mount'],
  ['ext4', 'block'],
  ['xfs', 'mount'],
  ['btrfs', 'block'],
] as const;

for (const [filesystem, accessType] of matrix) {
  test(`csi-sanity passes on a directory of files on ${filesystem}, as ${accessType}`, native, async (t) => {
    const { socket: endpoint, directory } = await StandaloneProcess.onFiles(t, filesystem);
    const dir = join(directory, 'sanity');
    await mustPassCsiSanity({ program, endpoint, dir, accessType }, [...neverOffered, ...notWithoutKubernetes]);
  });
}
