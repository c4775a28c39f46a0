import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { stringify } from 'yaml';
import { driverName } from '../../src/api/names.ts';
import { runCaptured } from '../../src/base/testing/run-captured.ts';
import { nodes, persistentVolumeClaims, pods, statefulSets, storageClasses } from '../../src/kube/resource.ts';
import { ProblemsFound } from '../../src/plugin/problems-found.ts';
import { kubectlMoorage } from '../../src/plugin/program.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { newNamespace, startApiServer } from './api-server.ts';
import { startEvictionWebhook } from './eviction-webhook.ts';
import { createSet, Machines } from './machines.ts';

const api = await startApiServer();
const { admin, cluster } = api;
const controller = await startEvictionWebhook(api);
const machines = new Machines(admin);
after(() => machines.stop());
await admin.create(storageClasses, {
  metadata: { name: 'local' },
  provisioner: driverName,
  volumeBindingMode: 'WaitForFirstConsumer',
});
const plugin = kubectlMoorage({ columns: undefined, colours: false });

/** The warnings of the API server about the object, or why it refuses it. Nothing is stored. */
async function reviewed(object: object): Promise<string> {
  const file = join(cluster.dir, 'reviewed.yaml');
  await writeFile(file, stringify(object));
  // kubectl prints warnings on standard error, and fails because of them with this flag.
  return cluster
    .kubectl('apply', '--server-side', '--force-conflicts', '-f', file, '--dry-run=server', '--warnings-as-errors')
    .then(() => '')
    .catch((error: Error & { stderr?: string }) => error.stderr ?? error.message);
}

function storageClass(parameters: Record<string, string>, rest: object = {}) {
  const metadata = { name: 'new' };
  const common = { apiVersion: 'storage.k8s.io/v1', kind: 'StorageClass', metadata };
  return { ...common, provisioner: driverName, volumeBindingMode: 'WaitForFirstConsumer', parameters, ...rest };
}

test('a new StorageClass with a mistyped parameter is refused, with the one that was meant', async () => {
  const mistyped = storageClass({ 'topolvm.io/device-clas': 'ssd', 'moorage.dev/mkfs-options': '-F' });
  const answer = await eventually('the webhook is called', async () => {
    const said = await reviewed(mistyped);
    return said.includes('device-clas') ? said : undefined;
  });
  assert.match(answer, /unknown name "topolvm.io\/device-clas" in parameters; did you mean topolvm.io\/device-class\?/);
  assert.match(answer, /also: moorage.dev\/mkfs-options contains "-F", which is not allowed for ext4/);
});

test('a class that may not work is created with a warning, and others without a word', async () => {
  await machines.add('classes-a', { 'capacity.topolvm.io/ssd': '1073741824', 'capacity.topolvm.io/00default': '1' });
  const unserved = storageClass({ 'topolvm.io/device-class': 'ssd2' }, { volumeBindingMode: 'Immediate' });
  await eventually('the controller knows the node', async () => {
    const said = await reviewed(unserved);
    assert.match(said, /Warning: no node has device class "ssd2" \(topolvm.io\/device-class\); did you mean ssd\?/);
    assert.match(said, /Warning: volumeBindingMode Immediate: .*; use WaitForFirstConsumer/);
    return true;
  });
  await admin.create(storageClasses, unserved);
  const matchLabelExpressions = [{ key: 'topology.topolvm.io/node', values: ['nope'] }];
  const nowhere = storageClass({}, { metadata: { name: 'nowhere' }, allowedTopologies: [{ matchLabelExpressions }] });
  assert.match(await reviewed(nowhere), /Warning: allowedTopologies leaves out every node that has storage; /);
  assert.equal(await reviewed(storageClass({ 'topolvm.io/device-class': 'ssd' }, { metadata: { name: 'good' } })), '');
  assert.equal(await reviewed(storageClass({ zone: 'b' }, { metadata: { name: 'ebs' }, provisioner: 'ebs' })), '');
});

test('a change with which a pod would not start again beside its data warns, and is not refused', async () => {
  const namespace = await newNamespace(api, 'shop');
  await machines.add('shop-a');
  await eventually(
    'the node is ready',
    async () => ((await admin.get(nodes, 'shop-a'))?.spec?.taints ?? []).length === 0,
  );
  await createSet(admin, namespace, 'db', 'local', {
    pod: { nodeSelector: { 'kubernetes.io/hostname': 'shop-a' } },
  });
  await eventually('the pod has a node', async () => (await admin.get(pods, 'db-0', { namespace }))?.spec?.nodeName);
  await eventually('its claim is bound', async () => {
    return (await admin.get(persistentVolumeClaims, 'data-db-0', { namespace }))?.status?.phase === 'Bound';
  });
  const current = await admin.get(statefulSets, 'db', { namespace });
  assert.ok(current?.spec?.template.spec);
  const { spec: podSpec } = current.spec.template;
  const changed = (cpu: string) => ({
    apiVersion: 'apps/v1',
    kind: 'StatefulSet',
    metadata: { name: 'db', namespace },
    spec: {
      ...current.spec,
      template: {
        metadata: current.spec?.template.metadata,
        spec: { ...podSpec, containers: [{ name: 'main', image: 'pause', resources: { requests: { cpu } } }] },
      },
    },
  });

  const warning = await eventually(
    'the controller has seen the pod',
    async () => (await reviewed(changed('5'))) || undefined,
  );
  assert.match(
    warning,
    /Warning: pod db-0 would not start again on node shop-a, where its data is: it has 4 cpu left, 5 requested; no node is large enough; request less/,
  );
  assert.equal(await reviewed(changed('3')), '');
  const many = changed('5');
  assert.equal(await reviewed({ ...many, spec: { ...many.spec, replicas: 2 ** 31 - 1 } }), warning);

  const check = async (cpu: string, printed: string[] = []) => {
    const file = join(cluster.dir, 'checked.yaml');
    await writeFile(file, stringify(changed(cpu)));
    await runCaptured(plugin, ['check', '-f', file], { env: { KUBECONFIG: cluster.kubeconfig }, printed });
    return printed.join();
  };
  assert.match(await check('3'), /StatefulSet shop\/db: pods are replaced, and keep their volumes\./);
  const printed: string[] = [];
  await assert.rejects(check('5', printed), ProblemsFound);
  assert.match(printed.join(), /StatefulSet shop\/db: 1 of 1 pods would not start again beside their data\./);
  assert.match(printed.join(), /db-0 +shop-a +data-db-0 +no: it has 4 cpu left, 5 requested/);
  assert.match(printed.join(), /Pod db-0: no node is large enough; request less\./);
  assert.equal((await admin.get(statefulSets, 'db', { namespace }))?.metadata.generation, 1, 'nothing was changed');

  await controller.kill();
  assert.equal(await reviewed(changed('5')), '', 'nobody is blocked if the controller does not answer');
  assert.equal(await reviewed(storageClass({ 'moorage.dev/colour': 'red' }, { metadata: { name: 'unchecked' } })), '');
});
