import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { type TestContext, test } from 'node:test';
import { promisify } from 'node:util';
import { systemClock } from '../../src/base/clock.ts';
import { type Run, run } from '../../src/base/exec.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import { StorageEngine } from '../../src/engine/storage-engine.ts';
import { command, deviceName, disks, volumeGroup } from '../../worlds/lvm/inside.ts';
import { undoAfter } from '../../worlds/lvm/undo.ts';
import { waitForChange } from './wait-for-change.ts';

const { signal } = new AbortController();
const mebibyte = 1024n ** 2n;

/** LVM whose check of a thin pool runs until it is told to end. */
async function slowThinCheck(t: TestContext) {
  const directory = `/tmp/${deviceName('slow-check')}`;
  await mkdir(directory, { recursive: true });
  const [gate, check] = [`${directory}/gate`, `${directory}/thin_check`];
  await promisify(execFile)('mkfifo', [gate]);
  await writeFile(check, `#!/bin/sh\nread word < ${gate}\n`, { mode: 0o755 });
  const settings = `global { thin_check_executable = "${check}" }\n`;
  await writeFile(`${directory}/lvm.conf`, settings);
  undoAfter(t, () => command('rm', '-r', directory));
  return { env: { ...process.env, LVM_SYSTEM_DIR: directory }, end: () => writeFile(gate, 'done\n') };
}

test('a thin pool whose check exceeds the command timeout delays no other class, and is served in the end', async (t) => {
  const [first = '', second = ''] = disks();
  const [slow, other] = [await volumeGroup(t, { disks: [first] }), await volumeGroup(t, { disks: [second] })];
  await command('lvcreate', '--yes', '--type', 'thin-pool', '--name', 'pool', '--size', '256m', slow);
  const configFile = `/tmp/${deviceName('lvmd.yaml')}`;
  const thin = `{name: thin, volume-group: ${slow}, type: thin, thin-pool: {name: pool, overprovision-ratio: 10}}`;
  const thick = `{name: thick, volume-group: ${other}, spare-gb: 0, default: true}`;
  await writeFile(configFile, `lvm-command-prefix: [lvm]\ndevice-classes: [${thin}, ${thick}]\n`);
  const start = (env: NodeJS.ProcessEnv, runs: Run) =>
    StorageEngine.start(
      { configFile, run: runs, env, stateDirectory: '/nowhere', clock: systemClock, log: silentLog },
      signal,
    );

  const before = await start(process.env, run);
  await before.pools.get('thin').create({ id: 'data', sizeBytes: 8n * mebibyte, tags: [] }, signal);
  await before.stop();
  await command('vgchange', '--activate', 'n', slow);

  // A minute takes a second here: a command with a one-minute limit is killed before the start stops waiting.
  const hasty: Run = (words, options) => {
    const isActivation = words.includes('--activate');
    return run(words, { ...options, timeoutMs: options.timeoutMs / (isActivation ? 60 : 1) });
  };
  const { env, end } = await slowThinCheck(t);
  const engine = await start(env, hasty);
  undoAfter(t, () => engine.stop());
  const { pools } = engine;
  await pools.get('thick').create({ id: 'meanwhile', sizeBytes: 8n * mebibyte, tags: [] }, signal);
  assert.throws(() => pools.get('thin'), { code: 'Unavailable', message: /device class thin .* still being opened/ });

  await end();
  await waitForChange(pools, () => pools.all().length === 2);
  const { devicePath = '' } = pools.get('thin').get('data') ?? {};
  assert.equal(await command('blockdev', '--getsize64', devicePath), String(8n * mebibyte));
});

test('an engine stopped during the check of a thin pool ends, and the next one checks it again', async (t) => {
  const [first = ''] = disks();
  const vg = await volumeGroup(t, { disks: [first] });
  await command('lvcreate', '--yes', '--type', 'thin-pool', '--name', 'pool', '--size', '256m', vg);
  await command('lvcreate', '--yes', '--thin', '--virtualsize', '8m', '--name', 'data', `${vg}/pool`);
  await command('vgchange', '--activate', 'n', vg);
  const configFile = `/tmp/${deviceName('lvmd.yaml')}`;
  const thinPool = '{name: pool, overprovision-ratio: 10}';
  const thin = `{name: thin, volume-group: ${vg}, type: thin, default: true, thin-pool: ${thinPool}}`;
  await writeFile(configFile, `lvm-command-prefix: [lvm]\ndevice-classes: [${thin}]\n`);
  const start = (env: NodeJS.ProcessEnv) =>
    StorageEngine.start(
      { configFile, run, env, stateDirectory: '/nowhere', clock: systemClock, log: silentLog },
      signal,
    );
  const { env } = await slowThinCheck(t);
  await (await start(env)).stop();

  const next = await start(process.env);
  undoAfter(t, () => next.stop());
  const { devicePath = '' } = next.pools.get('thin').get('data') ?? {};
  assert.equal(await command('blockdev', '--getsize64', devicePath), String(8n * mebibyte));
});
