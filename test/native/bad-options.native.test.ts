import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { PreparedUse } from '../../src/csi/node/node-volumes.ts';
import { ext4 } from '../../src/filesystem/ext4.ts';
import { xfs } from '../../src/filesystem/xfs.ts';
import { mounted, node, signal } from './node-of-test.ts';
import { sh, whyNotRoot } from './scratch.ts';

const native = { skip: whyNotRoot };

async function staging(t: TestContext) {
  const { data: volumeId, pool, start, stagingPath } = await node(t);
  const volumes = start();
  const stage = (use: PreparedUse) => volumes.stage({ volumeId, stagingPath, use }, signal);
  const unstage = () => volumes.unstage(volumeId, stagingPath, signal);
  return { stage, unstage, devicePath: pool.get(volumeId)?.devicePath };
}

test(
  'the error for options that mkfs rejects names their field, and correct ones work afterwards',
  native,
  async (t) => {
    const { stage, unstage } = await staging(t);
    await assert.rejects(
      stage(mounted(ext4, { mkfsOptions: ['-i', '1'] })),
      /^FilesystemNotCreated: cannot create ext4 on volume data-.*invalid inode ratio.*; correct the mkfs options \(-i 1\), or /,
    );
    await stage(mounted(ext4, { mkfsOptions: ['-i', '8192'] }));
    await unstage();
  },
);

test(
  'the error for options that mount rejects names their field, and correct ones work afterwards',
  native,
  async (t) => {
    const { stage, unstage } = await staging(t);
    await assert.rejects(
      stage(mounted(ext4, {}, ['noatime', 'nonsense'])),
      /^NotMountable: volume data-.*; correct the mount options \(noatime, nonsense\), or /,
    );
    await stage(mounted(ext4, {}, ['noatime']));
    await unstage();
  },
);

test('the error for a damaged filesystem does not blame options that nobody set', native, async (t) => {
  const { stage, unstage, devicePath } = await staging(t);
  await stage(mounted(xfs));
  await unstage();
  await sh(`dd if=/dev/zero of=${devicePath} bs=512 seek=1 count=7 conv=notrunc status=none`); // what follows the superblock
  await assert.rejects(
    stage(mounted(xfs)),
    /^NotMountable: volume data-[^ ]+ cannot be mounted: [^;]*;(?!.*mount options).* check the filesystem on the node with xfs_repair -n$/,
  );
});
