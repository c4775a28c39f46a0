import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { scratchFilesystem, whyNotRoot } from '../native/scratch.ts';
import { ensureCsiSanity } from '../worlds/cluster/binaries.ts';
import { mustBeSane, neverOffered, notWithoutKubernetes } from './csi-sanity.ts';
import { StandaloneProcess } from './standalone-process.ts';

const native = { skip: whyNotRoot };
const program = await ensureCsiSanity();

async function onFiles(t: TestContext): Promise<StandaloneProcess> {
  const path = await scratchFilesystem(t, 'xfs', 2048);
  return StandaloneProcess.start(t, [{ name: 'files', type: 'file', path, default: true, 'spare-gb': 0 }]);
}

for (const accessType of ['mount', 'block'] as const) {
  test(`csi-sanity passes on a directory of files, as ${accessType}`, native, async (t) => {
    const { socket: endpoint, directory } = await onFiles(t);
    const dir = join(directory, 'sanity');
    await mustBeSane({ program, endpoint, dir, accessType }, [...neverOffered, ...notWithoutKubernetes]);
  });
}
