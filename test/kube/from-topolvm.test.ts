import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { chmod, cp, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { parse, stringify } from 'yaml';
import { logicalVolumes } from '../../src/api/logical-volume.ts';
import { ensureHelm } from '../../worlds/cluster/binaries.ts';
import { moduleDir } from '../../worlds/cluster/go-build.ts';
import { startApiServer } from './api-server.ts';

const run = promisify(execFile);
const home = join(import.meta.dirname, '..', '..');
const { admin, cluster } = await startApiServer();
const documentation = await readFile(join(home, 'docs', 'migrating-from-topolvm.md'), 'utf8');
const [there = '', back = ''] = documentation.split('## Back');

test('the documented commands replace either chart with the other, and every LogicalVolume stays', async () => {
  const chart = await topolvmChart();
  await sh(`helm install topolvm ${chart} --namespace topolvm-system --create-namespace`);
  const spec = { name: 'pvc-1', nodeName: 'node-a', size: '1Gi' };
  const finalizers = ['topolvm.io/logicalvolume'];
  const created = await admin.create(logicalVolumes, { metadata: { name: 'pvc-1', finalizers }, spec });
  const stays = async () => {
    const found = await admin.get(logicalVolumes, 'pvc-1');
    assert.deepEqual([found?.metadata.uid, found?.metadata.deletionTimestamp], [created.metadata.uid, undefined]);
  };

  await sh(commandsIn(there));
  await stays();
  assert.match(await sh('helm list --all-namespaces --short'), /^moorage\n$/);
  assert.match(await sh('kubectl get logicalvolume pvc-1'), /NODE .* SIZE/, 'it is shown by the new definition');
  const modes = await sh('kubectl get csidriver topolvm.io -ojsonpath={.spec.volumeLifecycleModes}');
  assert.deepEqual(JSON.parse(modes), ['Persistent', 'Ephemeral']);

  await sh(commandsIn(back.slice(back.indexOf("Stop Moorage's programs"))));
  await sh(`helm install topolvm ${chart} --namespace topolvm-system --take-ownership`);
  await stays();
});

test('without Helm, the documented command applies the RBAC rules and the policies that restrict them', async () => {
  const [preparations = ''] = blocksIn(there);
  await sh(preparations);
  const [, command] =
    /```sh without Helm\n([^]*?)```/.exec(there) ?? assert.fail('the documentation has no such command');
  await sh(command ?? '');
  const bindings = await sh('kubectl get validatingadmissionpolicybindings -oname');
  for (const name of ['moorage-node', 'moorage-controller']) assert.match(bindings, new RegExp(`/${name}$`, 'm'));
  assert.match(await sh('kubectl get clusterroles -oname'), /moorage-node/);
});

/** The documented commands, with the files of this test. */
function commandsIn(text: string): string {
  const blocks = blocksIn(text);
  assert.notEqual(blocks.length, 0);
  return blocks.join('').replaceAll(' values.yaml', ` ${join(cluster.dir, 'values.yaml')}`);
}

function blocksIn(text: string): readonly string[] {
  return [...text.matchAll(/```sh\n([^]*?)```/g)].map(([, commands = '']) => commands);
}

async function sh(script: string): Promise<string> {
  const programs = [cluster.binaries.dir, dirname(await ensureHelm())];
  await writeFile(
    join(cluster.dir, 'values.yaml'),
    stringify({ lvmd: { deviceClasses: [{ name: 'ssd', 'volume-group': 'vg0', default: true }] } }),
  );
  const PATH = [...programs, process.env['PATH']].join(':');
  const env = { ...process.env, PATH, KUBECONFIG: cluster.kubeconfig };
  return (await run('sh', ['-euxc', script], { cwd: home, env, maxBuffer: 16 << 20 })).stdout;
}

/** The published chart without the cert-manager chart, which would have to be downloaded and is not used. */
async function topolvmChart(): Promise<string> {
  const module = await moduleDir(join(home, 'bench', 'topolvm'), 'github.com/topolvm/topolvm');
  const chart = join(cluster.dir, 'topolvm-chart');
  await cp(join(module, 'charts', 'topolvm'), chart, { recursive: true });
  await chmod(join(chart, 'Chart.yaml'), 0o644); // Go's cache is read-only
  const { dependencies: _, ...manifest } = parse(await readFile(join(chart, 'Chart.yaml'), 'utf8')) as Record<
    string,
    unknown
  >;
  await writeFile(join(chart, 'Chart.yaml'), stringify(manifest));
  return chart;
}
