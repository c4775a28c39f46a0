import assert from 'node:assert/strict';
import { appendFile, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { Run } from '../../base/exec.ts';
import { NodeConfiguration } from './node-configuration.ts';

/** LVM prints how often it was run. */
async function configured(t: TestContext) {
  const dir = await mkdtemp(join(tmpdir(), 'moorage-lvm-conf-'));
  t.after(() => rm(dir, { recursive: true }));
  let asked = 0;
  const run: Run = async () => ({ stdout: String(++asked), stderr: '' });
  const program = join(dir, 'lvm');
  await writeFile(program, '');
  const configuration = new NodeConfiguration({ command: [program], run, env: { LVM_SYSTEM_DIR: dir } });
  return { dir, program, configuration };
}

test('LVM is run again after a configuration file was edited, replaced or added, and after an upgrade', async (t) => {
  const { dir, program, configuration } = await configured(t);
  const file = join(dir, 'lvm.conf');
  await writeFile(file, 'devices { }\n');
  for (let i = 0; i < 2; i++) assert.equal(await configuration.merged(), '1');

  await appendFile(file, 'global { }\n');
  for (let i = 0; i < 2; i++) assert.equal(await configuration.merged(), '2');

  await writeFile(`${file}.new`, 'devices { }\nglobal { }\n');
  await rename(`${file}.new`, file);
  for (let i = 0; i < 2; i++) assert.equal(await configuration.merged(), '3');

  await writeFile(join(dir, 'lvmlocal.conf'), '');
  for (let i = 0; i < 2; i++) assert.equal(await configuration.merged(), '4');

  await appendFile(program, 'newer');
  for (let i = 0; i < 2; i++) assert.equal(await configuration.merged(), '5');
});

test('LVM is run each time if no configuration is found', async (t) => {
  const { configuration } = await configured(t);
  assert.equal(await configuration.merged(), '1');
  assert.equal(await configuration.merged(), '2');
});
