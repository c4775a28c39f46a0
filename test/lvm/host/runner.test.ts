import assert from 'node:assert/strict';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { readdir, readFile, readlink } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { cacheDir } from '../../../worlds/host/cache.ts';
import { testEnvironment } from '../../../worlds/host/environment.ts';
import { eventually } from '../../../worlds/host/eventually.ts';
import { hostileEnvironment } from '../../../worlds/host/hostile-environment.ts';
import { spawn } from '../../../worlds/host/processes.ts';
import { lvmWorld } from '../../../worlds/lvm/lvm-world.ts';
import { quote } from '../../../worlds/machine/quote.ts';

const root = join(import.meta.dirname, '../../..');
const runner = 'worlds/lvm/run.ts';
const passes = 'test/lvm/fixtures/passes.ts';
const fails = 'test/lvm/fixtures/fails.ts';
const neverEnds = 'test/lvm/fixtures/never-ends.ts';
/** Without what would break the runner itself, which is Node, and its downloads. */
const exported = Object.fromEntries(
  Object.entries(hostileEnvironment).filter(([name]) => !/^NODE_OPTIONS$|_proxy$/i.test(name)),
);

test('output and exit code of a passing file pass through', async () => {
  const { exitCode, stdout } = await finish(run('--test-reporter=tap', passes));
  assert.match(stdout, /^ok 1 - passes$/m);
  assert.equal(exitCode, 0);
});

test('one failing file fails the run, and the others still run', async () => {
  const { exitCode, stdout, stderr } = await finish(run('--test-reporter=tap', fails, passes));
  assert.match(stdout, /^not ok 1 - fails$/m);
  assert.match(stdout, /^ok 1 - passes$/m);
  assert.match(stderr, /fails\.ts failed in the LVM world/);
  assert.equal(exitCode, 1);
});

test('a finished run leaves nothing behind', async () => {
  const child = run(passes);
  const finished = finish(child);
  const dir = await dirOf(child);
  assert.equal((await finished).exitCode, 0);
  assert.deepEqual(await traces(dir), []);
});

test('a killed run leaves nothing behind', { timeout: 300_000 }, async () => {
  const child = run(neverEnds);
  const finished = finish(child);
  const printed = Promise.withResolvers<void>();
  child.stdout?.on('data', (piece: Buffer) => piece.includes('it never ends') && printed.resolve());
  const dir = await dirOf(child);
  await Promise.race([printed.promise, finished]);
  child.kill('SIGKILL');
  await finished; // its standard error ends only with its last process
  assert.deepEqual(await traces(dir), []);
});

test('the runner works the same without a machine, on a kernel with device mapper', async (t) => {
  const { sh } = await lvmWorld(t);
  const variables = Object.entries({ ...exported, XDG_CACHE_HOME: '/run/cache' }).map((pair) => quote(pair.join('=')));
  const node = `cd ${root} && exec env ${variables.join(' ')} ${process.execPath} ${runner}`;
  const nothingLeft = 'losetup --all; dmsetup ls; ls /run/cache/moorage/runs; cat /proc/mounts | grep loop || true';

  await t.test('a file passes', async () => {
    assert.match(await sh(`(${node} --test-reporter=tap test/lvm/world.test.ts)`), /^# fail 0$/m);
    assert.equal(await sh(nothingLeft), 'No devices found');
  });

  await t.test('a killed run leaves nothing behind', async () => {
    await sh(`
      mkfifo /run/output
      (${node} ${neverEnds}) >/run/output 2>&1 & runner=$!
      while read -r line; do
        case $line in *'it never ends'*) kill -KILL $runner; killed=1;; esac
      done </run/output
      [ "$killed" = 1 ]`);
    assert.equal(await sh(nothingLeft), 'No devices found');
  });
});

function run(...words: string[]): ChildProcess {
  return spawn(process.execPath, [runner, ...words], { cwd: root, env: { ...testEnvironment(), ...exported } });
}

async function finish(child: ChildProcess) {
  assert.ok(child.stdout && child.stderr);
  const [stdout, stderr, [exitCode]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'exit') as Promise<[number | null]>,
  ]);
  return { stdout, stderr, exitCode };
}

/** The directory of a run; it exists before the machine boots. */
async function dirOf(child: ChildProcess): Promise<string> {
  const runs = join(cacheDir, 'runs');
  return eventually('the run has a directory', async () => {
    for (const name of await readdir(runs)) {
      const owner = await readFile(join(runs, name, 'owner'), 'utf8').catch(() => '');
      if (owner.startsWith(`${child.pid} `)) return join(runs, name);
    }
    return undefined;
  });
}

/** Everything on the host that still uses this directory. */
async function traces(dir: string): Promise<string[]> {
  const places = [...(await processes()), ...(await loopDevices()), await readFile('/proc/self/mountinfo', 'utf8')];
  return [...(existsSync(dir) ? [dir] : []), ...places.filter((place) => place.includes(dir))];
}

async function processes(): Promise<string[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  return Promise.all(
    pids.map(async (pid) => {
      const command = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
      const cwd = await readlink(`/proc/${pid}/cwd`).catch(() => '');
      return `process ${pid}: ${command.replaceAll('\0', ' ')} in ${cwd}`;
    }),
  );
}

async function loopDevices(): Promise<string[]> {
  const devices = (await readdir('/sys/block')).filter((name) => name.startsWith('loop'));
  return Promise.all(
    devices.map(
      async (name) => `${name}: ${await readFile(`/sys/block/${name}/loop/backing_file`, 'utf8').catch(() => '')}`,
    ),
  );
}
