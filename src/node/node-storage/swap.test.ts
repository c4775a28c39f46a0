import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { swapOf } from './swap.ts';

const title = 'Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n';

async function machine(t: TestContext, files: Readonly<Record<string, string>>): Promise<string> {
  const root = await mkdtemp(join(tmpdir(), 'moorage-swap-'));
  t.after(() => rm(root, { recursive: true }));
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await writeFile(join(root, path), text);
  }
  return root;
}

const block = 'sys/class/block';

test('swap is encrypted if everything below it is', async (t) => {
  const rows: readonly (readonly [string, Readonly<Record<string, string>>, string])[] = [
    ['/dev/sda2', {}, 'Plain'],
    ['/dev/dm-0', { 'dm-0/dm/uuid': 'CRYPT-PLAIN-swap\n' }, 'Encrypted'],
    ['/dev/dm-1', { 'dm-1/dm/uuid': 'LVM-x', 'dm-1/slaves/dm-0': '', 'dm-0/dm/uuid': 'CRYPT-LUKS2-y' }, 'Encrypted'],
    ['/dev/dm-1', { 'dm-1/dm/uuid': 'LVM-x', 'dm-1/slaves/sda2': '' }, 'Plain'],
    ['/dev/dm-1', { 'dm-1/slaves/sda2': '', 'dm-1/slaves/dm-0': '', 'dm-0/dm/uuid': 'CRYPT-LUKS2-y' }, 'Plain'],
    ['/dev/loop0', {}, 'Unknown'],
  ];
  for (const [device, below, protection] of rows) {
    const files = Object.fromEntries(Object.entries(below).map(([path, text]) => [`${block}/${path}`, text]));
    const root = await machine(t, { ...files, 'proc/swaps': `${title}${device}  partition\t8388604\t0\t-2\n` });
    assert.deepEqual(await swapOf(root), [{ device, protection }], JSON.stringify(below));
  }
});

test('a file is unknown, compressed memory is no disk, and no swap is none', async (t) => {
  const lines = ['/swap\\040file  file\t10\t0\t-2', '/dev/zram0  partition\t10\t0\t100', ''].join('\n');
  const root = await machine(t, { 'proc/swaps': title + lines, [`${block}/zram0/backing_dev`]: 'none\n' });
  assert.deepEqual(await swapOf(root), [{ device: '/swap file', protection: 'Unknown' }]);
  assert.deepEqual(await swapOf(await machine(t, { 'proc/swaps': title })), []);
  assert.equal(await swapOf(await machine(t, {})), undefined);
});
