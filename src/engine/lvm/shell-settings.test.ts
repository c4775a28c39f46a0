import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readdir, readFile, readlink, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { issuesDiscards, rootOf, writeShellSettings } from './shell-settings.ts';

const mebibyte = 1024n ** 2n;

test('the same settings are written once, others elsewhere, and no partial directory is left', async (t) => {
  const root = await mkdtemp(join(tmpdir(), 'moorage-'));
  t.after(() => rm(root, { recursive: true }));
  const disks = { devices: ['/dev/sdb', '/dev/mapper/mpatha'], metadataAreaBytes: mebibyte };
  const [dir, same] = await Promise.all([
    writeShellSettings(root, 'scan="@devices@"', disks),
    writeShellSettings(root, 'scan="@devices@"', disks),
  ]);
  assert.equal(dir, same);
  assert.notEqual(await writeShellSettings(root, 'scan="@devices@"', { ...disks, devices: ['/dev/sdb'] }), dir);
  assert.equal((await readdir(join(root, '/run/moorage/lvm'))).length, 2);
  assert.equal(await readFile(join(root, dir, 'lvm.conf'), 'utf8'), `scan="${dir}/devices"`);
  assert.equal(await readlink(join(root, dir, 'devices/!dev!mapper!mpatha')), '/dev/mapper/mpatha');
});

test("a small read cache replaces LVM's default size, and only if the metadata fits", async (t) => {
  const root = await mkdtemp(join(tmpdir(), 'moorage-'));
  t.after(() => rm(root, { recursive: true }));
  const written = async (kib: number, metadataAreaBytes: bigint) => {
    const configuration = `global {\n\tio_memory_size=${kib}\n}\n`;
    const dir = await writeShellSettings(root, configuration, { devices: ['/dev/sdb'], metadataAreaBytes });
    return /io_memory_size=(\d+)/.exec(await readFile(join(root, dir, 'lvm.conf'), 'utf8'))?.[1];
  };
  assert.equal(await written(8192, mebibyte), '4096');
  assert.equal(await written(8192, 3n * mebibyte + 1n), '8192');
  assert.equal(await written(16384, mebibyte), '16384');
  assert.equal(await written(81920, mebibyte), '81920');
});

test('LVM notifies D-Bus only if there is a system bus', async (t) => {
  const root = await mkdtemp(join(tmpdir(), 'moorage-'));
  t.after(() => rm(root, { recursive: true }));
  const written = async () => {
    const disks = { devices: ['/dev/sdb'], metadataAreaBytes: mebibyte };
    const dir = await writeShellSettings(root, 'global {\n\tnotify_dbus=1\n}\n', disks);
    return /notify_dbus=(\d+)/.exec(await readFile(join(root, dir, 'lvm.conf'), 'utf8'))?.[1];
  };
  assert.equal(await written(), '0');
  await mkdir(join(root, 'run/dbus'));
  await writeFile(join(root, 'run/dbus/system_bus_socket'), '');
  assert.equal(await written(), '1');
});

test('LVM never discards itself, and the configured setting is still known', async (t) => {
  const root = await mkdtemp(join(tmpdir(), 'moorage-'));
  t.after(() => rm(root, { recursive: true }));
  for (const wanted of [0, 1]) {
    const configuration = `devices {\n\tissue_discards=${wanted}\n}\n`;
    const disks = { devices: ['/dev/sdb'], metadataAreaBytes: mebibyte };
    const dir = await writeShellSettings(root, configuration, disks);
    assert.match(await readFile(join(root, dir, 'lvm.conf'), 'utf8'), /issue_discards=0\n/);
    assert.equal(issuesDiscards(configuration), wanted === 1);
  }
});

test("LVM's root directory follows from its nsenter command", () => {
  assert.equal(rootOf(['lvm']), '');
  assert.equal(rootOf(['/usr/bin/nsenter', '-m', '-u', '-t', '1', '/sbin/lvm']), '/proc/1/root');
  assert.equal(rootOf(['nsenter', '-u', '-t', '1', 'lvm']), '');
  assert.equal(rootOf(['sudo', '-m', '-t', '1', 'lvm']), '');
});
