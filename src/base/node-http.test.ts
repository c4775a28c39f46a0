import assert from 'node:assert/strict';
import { test } from 'node:test';
import { run } from './exec.ts';

test('no process loads the browser APIs of Node', async () => {
  const processes = ['node/node', 'lvmd/lvmd', 'controller/controller', 'scheduler/scheduler', 'standalone/standalone'];
  const imports = processes.map((name) => `await import('./src/${name}-process.ts');`).join(' ');
  const script = `${imports} console.log(process.moduleLoadList.filter((name) => name.includes('undici')).join())`;
  const command = [process.execPath, '--input-type=module', '--eval', script] as const;
  const { stdout } = await run(command, { timeoutMs: 60_000, cwd: `${import.meta.dirname}/../..` });
  assert.equal(stdout.trim(), '', 'something imports node:http; import base/node-http.ts instead');
});
