import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { driverName, luks2, onDrain, parameters, secretParameters } from '../../src/api/names.ts';
import { storageClasses } from '../../src/kube/resource.ts';
import { Cluster } from '../../worlds/cluster/cluster.ts';
import type { ClusterNode } from '../../worlds/cluster/cluster-node.ts';
import { Moorage } from '../../worlds/cluster/moorage.ts';
import { CheckedSet } from './checked-set.ts';
import { nothingLeft } from './nothing-left.ts';

const run = promisify(execFile);

/** The use cases of docs/use-cases, each with pods that write checksummed data. */
describe('a claim that loses its pod', () => {
  let cluster: Cluster;
  let moorage: Moorage;
  before(async () => {
    cluster = await Cluster.start({ nodes: 3 });
    moorage = await Moorage.install(cluster);
  });
  after(() => cluster?.stop());

  describe('because its machine fails', () => {
    let failed: ClusterNode;
    let patient: CheckedSet;
    before(async () => {
      const { spec } = await moorage.controller(); // it must go on
      failed = cluster.nodes.find(({ name }) => name !== spec?.nodeName) ?? assert.fail('there is one node');
      const others = cluster.nodes.filter((node) => node !== failed).map(({ name }) => name);
      await cluster.kubectl('cordon', ...others);
      patient = await CheckedSet.create(cluster, 'patient');
      await cluster.kubectl('uncordon', ...others);
      await failed.kill();
      await failed.becomes('NotReady');
    });

    test('2. the machine comes back: the pod waits for it, with its data', async () => {
      const volumeId = await patient.volumeId();
      await failed.boot();
      await moorage.whenServing(failed);
      await patient.verify();
      assert.equal(await patient.nodeOf(), failed.name);
      assert.equal(await patient.volumeId(), volumeId);
      await patient.delete();
    });
  });

  test('3. its node is drained to be removed: volumes move first, the drain ends by itself, and other pods wait', async () => {
    const { spec } = await moorage.controller(); // it must answer
    const drained = cluster.nodes.find(({ name }) => name !== spec?.nodeName) ?? assert.fail('there is one node');
    const others = cluster.nodes.filter((node) => node !== drained).map(({ name }) => name);
    await cluster.kubectl('create', 'secret', 'generic', 'key', '--from-literal=passphrase=horse-battery');
    await cluster.kube.create(storageClasses, {
      metadata: { name: 'encrypted' },
      provisioner: driverName,
      parameters: {
        [parameters.onDrain]: 'move',
        [parameters.encryption]: luks2,
        [secretParameters.stage]: 'key',
        'csi.storage.k8s.io/node-stage-secret-namespace': 'default',
      },
      volumeBindingMode: 'WaitForFirstConsumer',
    });
    await cluster.kubectl('cordon', ...others);
    const moving = { annotations: { [onDrain.annotation]: 'move' } };
    const [thick, thin, encrypted, staying] = await Promise.all([
      CheckedSet.create(cluster, 'thick', moving),
      CheckedSet.create(cluster, 'thin', { ...moving, storageClass: 'moorage-thin' }),
      CheckedSet.create(cluster, 'encrypted', { storageClass: 'encrypted' }),
      CheckedSet.create(cluster, 'staying'),
    ]);
    await cluster.kubectl('uncordon', ...others);
    const volumeId = await staying.volumeId();

    const { stderr } = await run(
      cluster.binaries.kubernetes.kubectl,
      [`--kubeconfig=${cluster.kubeconfig}`, 'drain', drained.name, '--ignore-daemonsets', '--delete-emptydir-data'],
      { timeout: 900_000 },
    );
    for (const { name } of [thick, thin, encrypted]) assert.match(stderr, new RegExp(`claim data-${name}-0 moves`));
    for (const set of [thick, thin, encrypted]) {
      await set.verify();
      assert.ok(others.includes(await set.nodeOf()), `${set.name} is elsewhere`);
    }
    assert.equal(await staying.nodeOf(), '');
    await cluster.kubectl('uncordon', drained.name);
    await staying.verify();
    assert.deepEqual([await staying.nodeOf(), await staying.volumeId()], [drained.name, volumeId]);
    await Promise.all([thick, thin, encrypted, staying].map((set) => set.delete()));
  });

  test('nothing is left on the nodes', () => nothingLeft(cluster, moorage));
});
