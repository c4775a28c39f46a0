import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { run } from '../../../worlds/host/processes.ts';
import { MachineDidNotBoot } from '../../../worlds/machine/errors.ts';
import { Machine } from '../../../worlds/machine/machine.ts';
import { ensureMachineFiles, requirePrograms } from '../../../worlds/machine/machine-files.ts';

const fixtures = join(import.meta.dirname, '../fixtures');

test('a detached machine outlives the process that started it, and another process ends it', async (t) => {
  const dir = await directory(t);
  await run([process.execPath, join(fixtures, 'start-detached.ts'), dir], { timeoutMs: 600_000 });

  const machine = await Machine.attach(dir);
  assert.ok(machine.running);
  assert.equal((await machine.sh('hostname')).stdout, 'detached\n');

  await machine.powerLoss();
  assert.ok(!machine.running);
  assert.ok(!(await Machine.attach(dir)).running);
});

test('a machine runs its boot script at each boot', async (t) => {
  const dir = await directory(t);
  const share = await directory(t);
  const boot = join(fixtures, 'boot.sh');
  const files = await ensureMachineFiles((line) => t.diagnostic(line));
  const machine = await Machine.create({
    ...{ files, dir, name: 'boots', memoryMb: 128, disks: [], boot },
    ...{ shares: [share], env: { MARKS: join(share, 'marks') } },
  });
  t.after(() => machine.powerLoss());

  for (const marks of ['booted\n', 'booted\nbooted\n']) {
    await machine.start();
    const { stdout } = await machine.sh('until [ -e /run/booted ]; do sleep 0.01; done; cat $MARKS');
    assert.equal(stdout, marks);
    await machine.powerLoss();
  }
});

test('the error of a machine that cannot boot says why', async (t) => {
  const files = await ensureMachineFiles((line) => t.diagnostic(line));
  const broken = { ...files, toolsDir: '/nonexistent' };
  const machine = await Machine.create({
    ...{ files: broken, dir: await directory(t), name: 'broken', memoryMb: 128, disks: [] },
  });
  await assert.rejects(machine.start(), (error) => {
    assert.ok(error instanceof MachineDidNotBoot);
    assert.match(error.message, /nonexistent/);
    return true;
  });
  assert.ok(!machine.running);
});

test('the error on a host without the programs that machines need says what to install', async () => {
  await assert.rejects(requirePrograms({ PATH: '/nonexistent' }), /apt-get install apt dpkg tar util-linux/);
});

async function directory(t: TestContext): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'moorage-machine-'));
  t.after(() => rm(dir, { recursive: true }));
  return dir;
}
