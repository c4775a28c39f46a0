import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { stringify } from 'yaml';

interface Ended {
  readonly code: number | string;
  readonly stdout: string;
  readonly stderr: string;
}

function plugin(env: NodeJS.ProcessEnv, ...words: string[]): Promise<Ended> {
  return new Promise((resolve) => {
    execFile(process.execPath, [join(import.meta.dirname, 'main.ts'), ...words], { env }, (error, stdout, stderr) => {
      resolve({ code: error?.code ?? 0, stdout, stderr });
    });
  });
}

test('an invalid command line is reported in one line, with exit code 2', async () => {
  const stderr = 'kubectl moorage: invalid --health "ill": use one of Healthy,';
  const ended = await plugin({}, 'volumes', '--health', 'ill');
  assert.deepEqual([ended.code, ended.stderr.slice(0, stderr.length)], [2, stderr]);
});

test('a cluster that does not answer has exit code 3, and one that is not known exit code 1', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'plugin-'));
  const kubeconfig = join(dir, 'config');
  const clusters = [{ name: 'off', cluster: { server: 'https://127.0.0.1:1' } }];
  const contexts = [{ name: 'off', context: { cluster: 'off' } }];
  await writeFile(kubeconfig, stringify({ 'current-context': 'off', contexts, clusters }));
  const off = await plugin({ KUBECONFIG: kubeconfig }, 'nodes');
  assert.equal(off.code, 3);
  assert.match(off.stderr, /^kubectl moorage: .*127\.0\.0\.1:1.*\n$/);
  assert.deepEqual(await plugin({ HOME: dir }, 'nodes'), {
    code: 1,
    stdout: '',
    stderr: 'kubectl moorage: there is no ~/.kube/config; pass --kubeconfig or set KUBECONFIG\n',
  });
});
