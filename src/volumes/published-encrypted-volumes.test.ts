import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import type { BlockUse } from '../csi/volume-use.ts';
import { luksDevicePath } from '../engine/luks-device.ts';
import { encryptedTag } from '../engine/names-and-tags.ts';
import { VolumeKeys } from '../filesystem/volume-keys.ts';
import { node, onExt4 } from './testing/in-memory-node.ts';

const never = new AbortController().signal;
const block: BlockUse = { kind: 'block' };
const keys = new VolumeKeys(Buffer.from('k'));
const encryption = { isRequested: true, keys };
/** As when a volume is published, if its class names the Secret for staging only. */
const withoutKeys = { isRequested: true, keys: undefined };

test('the decrypted filesystem is mounted and published, and closed when it is unstaged', async (t) => {
  const { volumes, publication, mounts, stagingPath, targetPath, prepared } = await node(t);
  await volumes.stage({ volumeId: 'v', stagingPath, use: onExt4, encryption }, never);
  assert.equal(mounts.table.get(stagingPath)?.source, luksDevicePath('v'));
  await volumes.publish({ ...publication, encryption: withoutKeys }, never);
  await volumes.grow({ volumeId: 'v', volumePath: targetPath, stagingPath, isBlock: false, keys }, never);
  await volumes.unpublish('v', targetPath, never);
  await volumes.unstage('v', stagingPath, never);
  assert.deepEqual(mounts.steps, [
    'open v with k',
    `mount ${stagingPath}`,
    `bind ${stagingPath} at ${targetPath}`,
    'grow v with k',
    `grow ext4 of v at ${stagingPath}`,
    `unmount ${targetPath}`,
    `unmount ${stagingPath}`,
    'close v',
  ]);
  assert.deepEqual(prepared, ['v', 'v', 'v']);
});

test('the decrypted device is published as a raw volume, and grown', async (t) => {
  const { volumes, publication, mounts, stagingPath, targetPath } = await node(t);
  await volumes.stage({ volumeId: 'v', stagingPath, use: block, encryption }, never);
  await volumes.publish({ ...publication, use: block, encryption: withoutKeys }, never);
  assert.equal(mounts.table.get(targetPath)?.source, luksDevicePath('v'));
  await volumes.grow({ volumeId: 'v', volumePath: targetPath, stagingPath, isBlock: true, keys }, never);
  assert.equal(mounts.steps.at(-1), 'grow v with k');
});

test('for a move, the decrypted device is closed once no pod has it', async (t) => {
  const { volumes, publication, directory, targetPath, mounts } = await node(t);
  const stagingPath = join(directory, 'plugins/kubernetes.io/csi/topolvm.io/v/globalmount');
  await volumes.stage({ volumeId: 'v', stagingPath, use: onExt4, encryption }, never);
  await volumes.publish({ ...publication, stagingPath, encryption: withoutKeys }, never);
  const before = [...mounts.steps];
  await volumes.close('v', never);
  assert.deepEqual(mounts.steps, before, 'a pod has it');
  await volumes.unpublish('v', targetPath, never);
  await volumes.close('v', never);
  assert.deepEqual(mounts.steps.slice(before.length), [`unmount ${targetPath}`, `unmount ${stagingPath}`, 'close v']);

  // The move is aborted. The kubelet does not know that it was closed, so it does not stage it again.
  const again = { ...publication, stagingPath };
  await assert.rejects(volumes.publish({ ...again, encryption: withoutKeys }, never), { name: 'KeyMissing' });
  await volumes.publish({ ...again, encryption }, never);
  assert.equal(mounts.table.get(stagingPath)?.source, luksDevicePath('v'));
  assert.ok(mounts.table.has(targetPath));
});

test('without a key nothing is formatted, mounted or published, and the claim is told', async (t) => {
  for (const use of [onExt4, block]) {
    const { volumes, publication, mounts, stagingPath, prepared } = await node(t);
    const staging = { volumeId: 'v', stagingPath, use, encryption: withoutKeys };
    await assert.rejects(volumes.stage(staging, never), { name: 'KeyMissing' });
    await assert.rejects(volumes.publish({ ...publication, use, encryption: withoutKeys }, never), {
      name: 'KeyMissing',
    });
    assert.deepEqual([mounts.steps, mounts.table.size], [[], 0]);
    assert.equal(prepared.length, 1);
    assert.match(prepared[0] ?? '', /^v: volume v is encrypted and not open, and the request has no key/);
  }
});

test('an encrypted volume is decrypted even if the request does not mention it, and never used as it is', async (t) => {
  const { volumes, publication, mounts, pool, stagingPath, targetPath } = await node(t);
  await pool.addTags('v', [encryptedTag]);
  const plain = { ...publication, stagingPath: undefined };
  for (const refused of [plain, { ...plain, use: block }]) {
    await assert.rejects(volumes.publish(refused, never), { name: 'KeyMissing' });
  }
  const given = { isRequested: false, keys };
  await volumes.stage({ volumeId: 'v', stagingPath, use: onExt4, encryption: given }, never);
  assert.equal(mounts.table.get(stagingPath)?.source, luksDevicePath('v'));
  assert.equal(mounts.table.get(targetPath), undefined);
});

test('a volume that is not encrypted ignores keys', async (t) => {
  const { volumes, mounts, pool, stagingPath } = await node(t);
  const staging = { volumeId: 'v', stagingPath, use: onExt4, encryption: { isRequested: false, keys } };
  await volumes.stage(staging, never);
  assert.equal(mounts.table.get(stagingPath)?.source, pool.get('v')?.devicePath);
});

test('a volume whose filesystem cannot be mounted is not left open', async (t) => {
  const { volumes, mounts, stagingPath } = await node(t);
  mounts.mountAt = async () => Promise.reject(new Error('no'));
  await assert.rejects(volumes.stage({ volumeId: 'v', stagingPath, use: onExt4, encryption }, never), /no/);
  assert.deepEqual(mounts.steps, ['open v with k', 'close v']);
});
