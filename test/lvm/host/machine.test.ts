import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { eventually } from '../../../worlds/host/eventually.ts';
import { lvmWorld } from '../../../worlds/lvm/lvm-world.ts';
import { CallTimedOut, MachineOff } from '../../../worlds/machine/errors.ts';
import { Machine } from '../../../worlds/machine/machine.ts';

test('a machine takes calls', async (t) => {
  const { machine } = await lvmWorld(t);

  await t.test('output, errors and exit code are separate', async () => {
    const { stdout, stderr, exitCode } = await machine.sh('echo out; echo err >&2; exit 3');
    assert.deepEqual({ stdout, stderr, exitCode }, { stdout: 'out\n', stderr: 'err\n', exitCode: 3 });
  });

  await t.test('arguments of a command arrive unchanged', async () => {
    const words = ["it's", '$HOME', 'a  b', '"', '\\', '', '*', 'é\n'];
    const { stdout } = await machine.run(['printf', '%s|', ...words]);
    assert.equal(stdout, words.map((word) => `${word}|`).join(''));
  });

  await t.test("commands see the machine's environment and nothing of the host's", async () => {
    const { stdout } = await machine.sh('env | cut -d= -f1 | sort | xargs');
    const ofAnyShell = new Set(['OLDPWD', 'PWD', 'SHLVL', 'TERM']);
    const seen = stdout
      .trim()
      .split(' ')
      .filter((name) => !ofAnyShell.has(name));
    assert.deepEqual(seen, ['DM_DISABLE_UDEV', 'HOME', 'LVM_TEST_DISKS', 'LVM_TEST_PREFIX', 'PATH']);
  });

  await t.test('output may be binary', async () => {
    const { stdoutBytes, stderr } = await machine.sh(
      'head -c 1000001 /dev/urandom >/run/random; sha256sum </run/random >&2; cat /run/random',
    );
    assert.equal(createHash('sha256').update(stdoutBytes).digest('hex'), stderr.split(' ')[0]);
  });

  await t.test('output arrives while the command runs', async () => {
    const first = Promise.withResolvers<string>();
    const call = machine.sh('echo first; until [ -e /run/go ]; do sleep 0.01; done; echo second', {
      onStdout: (piece) => first.resolve(piece.toString()),
    });
    assert.equal(await first.promise, 'first\n');
    await machine.sh('touch /run/go');
    assert.equal((await call).stdout, 'first\nsecond\n');
  });

  await t.test('many calls run at once', async () => {
    const arrive = (index: number) => `mkdir -p /run/meeting/${index}; echo ${index}`;
    const waitForAll = 'until [ "$(ls /run/meeting | wc -l)" = 10 ]; do sleep 0.01; done';
    const calls = Array.from({ length: 10 }, (_, index) => machine.sh(`${arrive(index)}; ${waitForAll}`));
    const results = await Promise.all(calls);
    assert.deepEqual(
      results.map(({ stdout }) => stdout),
      results.map((_, index) => `${index}\n`),
    );
  });

  await t.test('a call past its deadline is killed with all its processes', async () => {
    const call = machine.sh('sleep 1000 & sleep 1000', { timeoutMs: 3000 });
    await assert.rejects(call, CallTimedOut);
    await eventually('its processes are gone', async () => (await machine.sh('pgrep -c sleep')).stdout === '0\n');
  });

  await t.test('writes to host files stay in the machine', async () => {
    const path = join(import.meta.dirname, 'made-in-the-machine');
    assert.equal((await machine.sh(`echo inside >${path}; cat ${path}`)).stdout, 'inside\n');
    assert.ok(!existsSync(path));
  });

  await t.test('another process can attach to it', async () => {
    await machine.sh('echo here >/run/mark');
    const same = await Machine.attach(machine.dir);
    assert.equal((await same.sh('cat /run/mark')).stdout, 'here\n');
  });

  await t.test('a call to a machine that loses power fails, and so do later ones', async () => {
    const started = Promise.withResolvers<void>();
    const call = machine.sh('echo started; sleep 1000', { onStdout: () => started.resolve() });
    const failed = assert.rejects(call, MachineOff);
    await started.promise;
    await machine.powerLoss();
    await failed;
    await assert.rejects(machine.sh('true'), MachineOff);
  });
});

test('an orderly stop ends all processes and syncs the disks', async (t) => {
  const { machine, disks, sh, boot } = await lvmWorld(t);
  await sh(`mkfs.ext4 -q ${disks[0]}; mkdir /data; mount ${disks[0]} /data`);
  await sh(`
    mkfifo /run/listening
    (trap 'echo ended >/data/end; exit' TERM; echo >/run/listening; while :; do sleep 0.01; done) >/dev/null 2>&1 &
    read _ </run/listening
    echo unsynced >/data/late`);

  await machine.powerOff();
  assert.ok(!machine.running);

  await boot();
  assert.equal(await sh(`mkdir /data; mount ${disks[0]} /data; cat /data/late /data/end`), 'unsynced\nended');
});
