import assert from 'node:assert/strict';
import { mkdtemp, open, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { RpcClient } from '../../src/rpc/client.ts';
import { LVService, VGService } from '../../src/rpc/gen/lvmd/lvmd_pb.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { command, disks, volumeGroup } from '../../worlds/lvm/inside.ts';
import { LvmdProcess, moorage } from './lvmd-process.ts';

const mebibyte = 1024n ** 2n;
const options = { timeoutMs: 60_000 };
const { signal } = new AbortController();

const thick = (vg: string) => ({ name: 'ssd', 'volume-group': vg, default: true, 'spare-gb': 0 });
const thin = (vg: string) => ({
  ...{ name: 'thin', type: 'thin', 'volume-group': vg },
  'thin-pool': { name: 'tp', 'overprovision-ratio': 3 },
});

test('the CLI creates, lists, grows and removes volumes on real LVM', async (t) => {
  const vg = await volumeGroup(t, { disks: disks().slice(0, 1) });
  const lvmd = await LvmdProcess.start(t, [thick(vg)]);

  const socket = ['--socket', lvmd.socketPath]; // twice as a separate process, as users start it
  const created = await moorage('volume', 'create', 'data', '10Mi', '--tags', 'a,b', '-o', 'json', ...socket);
  assert.equal(created.code, 0, created.stderr);
  const { device, sizeBytes, tags } = JSON.parse(created.stdout);
  assert.equal(device, `/dev/${vg}/data`);
  assert.equal(sizeBytes, 12 * 1024 ** 2); // whole extents
  assert.deepEqual(tags.slice(0, 2), ['a', 'b']);
  assert.ok((await stat(device)).isBlockDevice());

  const grown = await lvmd.moorage('volume', 'grow', 'data', '20Mi');
  assert.match(grown.stdout, /^data +ssd +20 MiB +rw +\/dev/m);
  assert.equal(await command('lvs', '--noheadings', '--units', 'm', '-o', 'lv_size', `${vg}/data`), '20.00m');

  {
    await using _ = await open(device, 'r');
    const refused = await moorage('volume', 'rm', 'data', ...socket);
    assert.equal(refused.code, 1);
    assert.match(refused.stderr, /^moorage: volume data is still in use .*; unmount and close it/);
  }
  assert.deepEqual(await lvmd.moorage('volume', 'rm', 'data'), {
    code: 0,
    stdout: 'volume data removed\n',
    stderr: '',
  });
  assert.equal(await command('lvs', '--noheadings', vg), '');
});

test('the CLI clones and erases thin and thick volumes, and its watch reports outside changes', async (t) => {
  const vg = await volumeGroup(t, { disks: disks().slice(0, 1) });
  await command('lvcreate', '-y', '-T', '-L', '100m', '-n', 'tp', vg);
  const lvmd = await LvmdProcess.start(t, [{ ...thick(vg), erase: 'shred', 'erase-passes': 1 }, thin(vg)]);
  await lvmd.moorage('volume', 'create', 'data', '32Mi', '--device-class', 'thin');
  const copied = await lvmd.moorage('volume', 'snapshot', 'data', 'copy', '--access', 'rw', '--size', '64Mi', '-ojson');
  assert.equal(copied.code, 0, copied.stderr);
  const { origin, sizeBytes, access } = JSON.parse(copied.stdout);
  assert.deepEqual({ origin, sizeBytes, access }, { origin: 'data', sizeBytes: 64 * 1024 ** 2, access: 'rw' });

  await lvmd.moorage('volume', 'create', 'secret', '64Mi');
  const removed = await lvmd.moorage('volume', 'rm', 'secret');
  assert.deepEqual([removed.code, removed.stdout], [0, 'volume secret removed\n'], removed.stderr);

  using groups = new RpcClient(VGService, lvmd.socketPath);
  const watch = groups.methods.watch({}, { signal })[Symbol.asyncIterator]();
  const before = (await watch.next()).value?.freeBytes ?? 0n;
  await command('lvcreate', '-y', '-n', 'theirs', '-L', '20m', vg);
  let free = before;
  while (free !== before - 20n * mebibyte) free = (await watch.next()).value?.freeBytes ?? 0n;
  await watch.return?.();
});

test("TopoLVM's calls return LVM's device numbers, creation is idempotent, and a watch continues", async (t) => {
  const vg = await volumeGroup(t, { disks: disks().slice(0, 1) });
  const lvmd = await LvmdProcess.start(t, [thick(vg)]);
  using volumes = new RpcClient(LVService, lvmd.socketPath);
  using groups = new RpcClient(VGService, lvmd.socketPath);
  const watch = groups.methods.watch({}, { signal })[Symbol.asyncIterator]();
  const before = (await watch.next()).value?.freeBytes ?? 0n;

  const wanted = { name: 'data', sizeBytes: 8n * mebibyte, tags: ['a'] };
  const { volume } = await volumes.methods.createLV(wanted, options);
  const { volume: again } = await volumes.methods.createLV(wanted, options);
  assert.deepEqual(again, volume);
  const numbers = await command('lvs', '--noheadings', '-o', 'lv_kernel_major,lv_kernel_minor', `${vg}/data`);
  assert.equal(`${volume?.devMajor} ${volume?.devMinor}`, numbers.replace(/\s+/, ' '));
  assert.equal((await watch.next()).value?.freeBytes, before - 8n * mebibyte);

  const { volumes: listed } = await groups.methods.getLVList({}, options);
  assert.deepEqual(listed, [volume]);

  await assert.rejects(volumes.methods.createLV({ name: 'big', sizeBytes: before * 2n }, options), {
    code: 'ResourceExhausted',
  });
  await volumes.methods.removeLV({ name: 'data' }, options);
  await assert.rejects(volumes.methods.removeLV({ name: 'data' }, options), { code: 'NotFound' });
  let free = 0n;
  while (free !== before) free = (await watch.next()).value?.freeBytes ?? 0n;
  await watch.return?.();
});

test('devices that others deactivate, and activate in another order, are listed with LVM’s current numbers', async (t) => {
  const vg = await volumeGroup(t, { disks: disks().slice(0, 1) });
  const lvmd = await LvmdProcess.start(t, [thick(vg)]);
  using volumes = new RpcClient(LVService, lvmd.socketPath);
  using groups = new RpcClient(VGService, lvmd.socketPath);
  const names = ['a', 'b'];
  const listed = async () => {
    const { volumes } = await groups.methods.getLVList({}, options);
    return names
      .map((name) => volumes.find((volume) => volume.name === name))
      .map((it) => [it?.devMajor, it?.devMinor]);
  };
  const areListedAs = (numbers: unknown) => async () => isDeepStrictEqual(await listed(), numbers);
  const reportedByLvm = async (name: string) =>
    (await command('lvs', '--noheadings', '-o', 'lv_kernel_major,lv_kernel_minor', `${vg}/${name}`))
      .split(/\s+/)
      .map(Number);

  for (const name of names) await volumes.methods.createLV({ name, sizeBytes: 4n * mebibyte }, options);
  assert.deepEqual(await listed(), [await reportedByLvm('a'), await reportedByLvm('b')]);
  await command('lvchange', '-an', `${vg}/a`, `${vg}/b`);
  const none = [0, 0];
  await eventually('no device has numbers', areListedAs([none, none]));
  for (const name of names.toReversed()) await command('lvchange', '-ay', `${vg}/${name}`);
  const numbers = [await reportedByLvm('a'), await reportedByLvm('b')];
  await eventually('the devices have their new numbers', areListedAs(numbers));
});

test('a second engine on the same socket fails to start, and the first keeps serving', async (t) => {
  const vg = await volumeGroup(t, { disks: disks().slice(0, 1) });
  const lvmd = await LvmdProcess.start(t, [thick(vg)]);
  const second = await moorage('lvmd', '--config', lvmd.configFile, '--metrics-addr', '127.0.0.1:0');
  assert.equal(second.code, 1);
  assert.match(second.stderr, /another lvmd answers on .*; stop it first/);
  assert.deepEqual(await moorage('lvmd', 'health', '--config', lvmd.configFile), {
    code: 0,
    stdout: 'healthy\n',
    stderr: '',
  });
});

test('health reports that LVM hangs, and that it works again', async (t) => {
  const vg = await volumeGroup(t, { disks: disks().slice(0, 1) });
  const lvm = await lvmThatCanHang(t);
  const lvmd = await LvmdProcess.start(t, [thick(vg)], [lvm.path]);
  const health = () => moorage('lvmd', 'health', '--config', lvmd.configFile);
  assert.equal((await health()).code, 0);

  await lvm.hang(lvmd.pid);
  const { code, stderr } = await health();
  assert.equal(code, 1);
  assert.match(stderr, /^moorage: lvmd runs, but cannot serve: device class ssd: .*no answer within 10 s/);

  await lvm.goOn();
  assert.equal((await health()).code, 0);
});

test('LVM works with the capabilities that the systemd unit grants', async (t) => {
  const unit = join(import.meta.dirname, '..', '..', 'deploy', 'systemd', 'moorage-lvmd.service');
  const capabilities = /^CapabilityBoundingSet=(.+)$/m.exec(await readFile(unit, 'utf8'))?.[1]?.split(' ') ?? [];
  assert.ok(capabilities.length > 0);
  const kept = capabilities.map((name) => `+${name.replace('CAP_', '').toLowerCase()}`);
  const lvm = ['setpriv', '--no-new-privs', '--bounding-set', ['-all', ...kept].join(','), 'lvm'];

  const vg = await volumeGroup(t, { disks: disks().slice(0, 1) });
  await command('lvcreate', '-y', '-T', '-L', '100m', '-n', 'tp', vg);
  const lvmd = await LvmdProcess.start(t, [{ ...thick(vg), erase: 'zero' }, thin(vg)], lvm);
  const works = async (...words: string[]) => {
    const { code, stderr } = await lvmd.moorage('volume', ...words);
    assert.equal(code, 0, `${words.join(' ')}: ${stderr}`);
  };
  await works('create', 'a', '20Mi');
  await works('create', 'b', '20Mi', '--device-class', 'thin');
  await works('snapshot', 'b', 'c');
  await works('grow', 'a', '40Mi');
  await works('grow', 'b', '40Mi');
  await works('rm', 'a', 'c', 'b');
});

/** An `lvm` that can be made to hang, in running processes and in new ones. */
async function lvmThatCanHang(t: TestContext) {
  const directory = await mkdtemp(join(tmpdir(), 'moorage-hanging-'));
  t.after(() => rm(directory, { recursive: true }));
  const path = join(directory, 'lvm');
  const brake = join(directory, 'brake');
  await writeFile(path, `#!/bin/sh\nwhile [ -e ${brake} ]; do sleep 1; done\nexec lvm "$@"\n`, { mode: 0o755 });
  let stopped: number[] = [];
  return {
    path,
    async hang(parent: number) {
      await writeFile(brake, '');
      const children = await readFile(`/proc/${parent}/task/${parent}/children`, 'utf8');
      stopped = children.split(' ').filter(Boolean).map(Number);
      for (const pid of stopped) process.kill(pid, 'SIGSTOP');
    },
    async goOn() {
      await rm(brake);
      for (const pid of stopped) process.kill(pid, 'SIGCONT');
    },
  };
}
