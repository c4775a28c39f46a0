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

/** With only what Node 20 has, the oldest Node that the plugin runs on. */
const asNode20 = `import { setMaxListeners } from 'node:events';
  globalThis.AbortController = class extends AbortController { constructor() { super(); setMaxListeners(10, this.signal); } };
  delete Promise.withResolvers; delete Promise.try; delete Object.groupBy; delete Map.groupBy;
  delete globalThis.DisposableStack; delete globalThis.AsyncDisposableStack; delete globalThis.Iterator; delete Array.fromAsync;
  for (const name of ['union', 'intersection', 'difference', 'isSubsetOf']) delete Set.prototype[name];`;

function plugin(env: NodeJS.ProcessEnv, ...words: string[]): Promise<Ended> {
  const options = ['--import', `data:text/javascript,${encodeURIComponent(asNode20)}`];
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      [...options, join(import.meta.dirname, 'main.ts'), ...words],
      { env },
      (error, stdout, stderr) => {
        resolve({ code: error?.code ?? 0, stdout, stderr });
      },
    );
  });
}

test('an invalid command line is reported in one line, with exit code 2', async () => {
  const stderr = 'kubectl moorage: invalid --health "ill": use one of Healthy,';
  const ended = await plugin({}, 'volumes', '--health', 'ill');
  assert.deepEqual([ended.code, ended.stderr.slice(0, stderr.length)], [2, stderr]);
});

/** A cluster that is off. */
async function kubeconfigIn(dir: string): Promise<string> {
  const kubeconfig = join(dir, 'config');
  const clusters = [{ name: 'off', cluster: { server: 'https://127.0.0.1:1' } }];
  const contexts = [{ name: 'off', context: { cluster: 'off' } }];
  await writeFile(kubeconfig, stringify({ 'current-context': 'off', contexts, clusters }));
  return kubeconfig;
}

test('a cluster that does not answer has exit code 3, and one that is not known exit code 1', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'plugin-'));
  const kubeconfig = await kubeconfigIn(dir);
  const off = await plugin({ KUBECONFIG: kubeconfig }, 'nodes');
  assert.equal(off.code, 3);
  assert.match(off.stderr, /^kubectl moorage: no answer .*127\.0\.0\.1:1.*ECONNREFUSED.*\n$/);
  const doctor = await plugin({ KUBECONFIG: kubeconfig }, 'doctor');
  assert.match(doctor.stderr, /^kubectl moorage: no answer .*\n$/); // and no warning about its many requests at once
  assert.deepEqual(await plugin({ HOME: dir }, 'nodes'), {
    code: 1,
    stdout: '',
    stderr: 'kubectl moorage: there is no ~/.kube/config; pass --kubeconfig or set KUBECONFIG\n',
  });
});

test('a bundle that cannot be written is refused before the cluster is read', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'plugin-'));
  const kubeconfig = await kubeconfigIn(dir);
  const bundle = (file: string) => plugin({ KUBECONFIG: kubeconfig }, 'bundle', '--output', file);
  const nowhere = join(dir, 'missing');
  assert.deepEqual(await bundle(join(nowhere, 'x')), {
    code: 2,
    stdout: '',
    stderr: `kubectl moorage: --output ${nowhere}/x: there is no folder ${nowhere}\n`,
  });
  assert.match((await bundle(kubeconfig)).stderr, /config exists already; pass another --output/);
});
