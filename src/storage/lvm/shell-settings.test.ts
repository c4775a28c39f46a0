import assert from 'node:assert/strict';
import { mkdtemp, readdir, readFile, readlink, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { rootOf, writeShellSettings } from './shell-settings.ts';

test('the same settings are written once, others elsewhere, and nothing is left half-way', async (t) => {
  const root = await mkdtemp(join(tmpdir(), 'moorage-'));
  t.after(() => rm(root, { recursive: true }));
  const devices = ['/dev/sdb', '/dev/mapper/mpatha'];
  const [dir, same] = await Promise.all([
    writeShellSettings(root, 'scan="@devices@"', devices),
    writeShellSettings(root, 'scan="@devices@"', devices),
  ]);
  assert.equal(dir, same);
  assert.notEqual(await writeShellSettings(root, 'scan="@devices@"', ['/dev/sdb']), dir);
  assert.equal((await readdir(join(root, '/run/moorage/lvm'))).length, 2);
  assert.equal(await readFile(join(root, dir, 'lvm.conf'), 'utf8'), `scan="${dir}/devices"`);
  assert.equal(await readlink(join(root, dir, 'devices/!dev!mapper!mpatha')), '/dev/mapper/mpatha');
});

test("LVM's files are where its command enters", () => {
  assert.equal(rootOf(['lvm']), '');
  assert.equal(rootOf(['/usr/bin/nsenter', '-m', '-u', '-t', '1', '/sbin/lvm']), '/proc/1/root');
  assert.equal(rootOf(['nsenter', '-u', '-t', '1', 'lvm']), '');
  assert.equal(rootOf(['sudo', '-m', '-t', '1', 'lvm']), '');
});
