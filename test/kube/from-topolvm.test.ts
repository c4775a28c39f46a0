import assert from 'node:assert/strict';
import { chmod, cp, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { parse, stringify } from 'yaml';
import { logicalVolumes } from '../../src/api/logical-volume.ts';
import { ensureHelm } from '../../worlds/cluster/binaries.ts';
import { moduleDir } from '../../worlds/cluster/go-build.ts';
import { environment } from '../../worlds/host/environment.ts';
import { execute } from '../../worlds/host/processes.ts';
import { startApiServer } from './api-server.ts';

const home = join(import.meta.dirname, '..', '..');
const { admin, cluster } = await startApiServer();
const documentation = await readFile(join(home, 'docs', 'migrating-from-topolvm.md'), 'utf8');
const [there = '', back = ''] = documentation.split('## Back');

const classes = [
  { name: 'topolvm-provisioner', storageClass: { fsType: 'xfs', volumeBindingMode: 'WaitForFirstConsumer' } },
  { name: 'plain', storageClass: { volumeBindingMode: 'WaitForFirstConsumer' } },
] as const;
const webhook = { podMutatingWebhook: { enabled: true }, certManager: false, secretName: 'webhook' };
await writeFile(join(cluster.dir, 'topolvm.yaml'), stringify({ storageClasses: classes, webhook }));
const installTopolvm = `helm install topolvm ${await topolvmChart()} -n topolvm-system -f ${cluster.dir}/topolvm.yaml`;
const dryRun = lineWith('--dry-run=server');

/** What others have in a namespace. */
const addBystanders = (namespace: string) => `
kubectl -n ${namespace} create deployment bystander --image=bystander
kubectl -n ${namespace} create secret generic bystander
kubectl -n ${namespace} label secret bystander owner=helm name=bystander
kubectl -n ${namespace} create -f - <<'end'
{"apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity", "metadata": {"name": "bystander"}, "storageClassName": "bystander"}
end`;
const getBystanders = (namespace: string) =>
  `kubectl -n ${namespace} get deployment/bystander secret/bystander csistoragecapacity/bystander`;
const parametersOfClasses = `kubectl get storageclasses -ojsonpath='{range .items[*]}{.metadata.name} {.parameters}{"\\n"}{end}'`;

test('while TopoLVM runs, the chart is not installed, and the reason destroys nothing', async () => {
  await sh(`${installTopolvm} --create-namespace`);
  await sh(addBystanders('topolvm-system'));
  await assert.rejects(
    sh(dryRun),
    /TopoLVM is still running, as DaemonSet .* in namespace topolvm-system.*migrating-from-topolvm\.md/,
  );
});

test('values that differ from an existing StorageClass are found before TopoLVM is gone, which can be started again', async () => {
  const [stop = ''] = blocksIn(there);
  await sh(stop);
  await assert.rejects(
    sh(dryRun, [{ name: 'topolvm-provisioner', storageClass: { fsType: 'ext4' } }]),
    (error: Error) => {
      assert.match(error.message, /cannot change StorageClass topolvm-provisioner/);
      assert.match(error.message, /"csi.storage.k8s.io\/fstype":"xfs"/);
      return true;
    },
  );

  const withoutFsType = [{ name: 'topolvm-provisioner' }];
  assert.match(
    await sh(dryRun.replace('>/dev/null', ''), withoutFsType),
    /csi.storage.k8s.io\/fstype: xfs/,
    'as it is',
  );

  await sh(lineWith('helm rollback topolvm'));
  const kinds = 'csidriver/topolvm.io mutatingwebhookconfiguration/topolvm-hook';
  await sh(
    `kubectl -n topolvm-system get daemonset/topolvm-node deployment/topolvm-controller && kubectl get ${kinds}`,
  );
});

test('the documented commands replace either chart with the other, and all that is not theirs stays', async () => {
  const spec = { name: 'pvc-1', nodeName: 'node-a', size: '1Gi' };
  const finalizers = ['topolvm.io/logicalvolume'];
  const created = await admin.create(logicalVolumes, { metadata: { name: 'pvc-1', finalizers }, spec });
  const classesBefore = await sh(parametersOfClasses);
  const stays = async () => {
    const found = await admin.get(logicalVolumes, 'pvc-1');
    assert.deepEqual([found?.metadata.uid, found?.metadata.deletionTimestamp], [created.metadata.uid, undefined]);
    await sh(getBystanders('topolvm-system'));
    assert.equal(await sh(parametersOfClasses), classesBefore);
  };

  await sh(commandsIn(there));
  await stays();
  assert.match(await sh('helm list --all-namespaces --short'), /^moorage\n$/);
  assert.match(await sh('kubectl get logicalvolume pvc-1'), /NODE .* SIZE/, 'it is shown by the new definition');
  const modes = await sh('kubectl get csidriver topolvm.io -ojsonpath={.spec.volumeLifecycleModes}');
  assert.deepEqual(JSON.parse(modes), ['Persistent', 'Ephemeral']);

  await sh(addBystanders('moorage-system'));
  await sh(commandsIn(back.slice(back.indexOf("Stop Moorage's programs"))));
  await sh(`${installTopolvm} --take-ownership`);
  await sh(getBystanders('moorage-system'));
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

function commandsIn(text: string): string {
  const blocks = blocksIn(text);
  assert.notEqual(blocks.length, 0);
  return blocks.join('');
}

/** The documented command with these words. */
function lineWith(words: string): string {
  const lines = [...documentation.matchAll(/```sh\n([^]*?)```|`(helm [^`]+)`/g)].flatMap(([, block, line]) =>
    (block ?? line ?? '').split('\n'),
  );
  return lines.find((line) => line.includes(words)) ?? assert.fail(`the documentation has no ${words}`);
}

function blocksIn(text: string): readonly string[] {
  return [...text.matchAll(/```sh\n([^]*?)```/g)].map(([, commands = '']) => commands);
}

/** Runs commands, as documented with a file values.yaml. */
async function sh(script: string, storageClasses: readonly object[] = classes): Promise<string> {
  const programs = [cluster.binaries.dir, dirname(await ensureHelm())];
  const values = join(cluster.dir, 'values.yaml');
  const lvmd = { deviceClasses: [{ name: 'ssd', 'volume-group': 'vg0', default: true }] };
  await writeFile(values, stringify({ lvmd, storageClasses }));
  const PATH = [...programs, environment().PATH].join(':');
  const env = { PATH, KUBECONFIG: cluster.kubeconfig };
  const command = script.replaceAll(' values.yaml', ` ${values}`);
  return (await execute('sh', ['-euxc', command], { cwd: home, env, maxBuffer: 16 << 20 })).stdout;
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
