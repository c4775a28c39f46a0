import assert from 'node:assert/strict';
import { test } from 'node:test';
import { downloadEnvironment, environment, testEnvironment } from './environment.ts';
import { hostileEnvironment } from './hostile-environment.ts';
import { executeSync, spawnSync } from './processes.ts';

test('only what a program needs passes from the user', (t) => {
  for (const [name, value] of Object.entries(hostileEnvironment)) {
    const before = process.env[name];
    process.env[name] = value;
    t.after(() => (before === undefined ? delete process.env[name] : (process.env[name] = before)));
  }
  const names = (variables: NodeJS.ProcessEnv) => Object.keys(variables).filter((name) => name in hostileEnvironment);

  assert.deepEqual(names(environment()), []);
  assert.deepEqual(names(downloadEnvironment()), ['http_proxy', 'https_proxy', 'HTTPS_PROXY', 'NO_PROXY']);
  assert.deepEqual(names(testEnvironment()), names(downloadEnvironment()));
  const printed = executeSync('env', [], { encoding: 'utf8', env: { NODE_NAME: 'own' } });
  assert.equal(/^NODE_NAME=(.*)$/m.exec(printed)?.[1], 'own');
  assert.doesNotMatch(printed, /KUBECONFIG|LC_ALL|LVM_|proxy/i);
  assert.equal(spawnSync(process.execPath, ['--eval', '0']).status, 0);
});
