import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { localPvOptions } from '../../src/api/local-pv.ts';
import { driverName, luks2, onDrain, onScaleDown, parameters, reserve, secretParameters } from '../../src/api/names.ts';
import { runCaptured } from '../../src/base/testing/run-captured.ts';
import { persistentVolumes, storageClasses } from '../../src/kube/resource.ts';
import { kubectlMoorage as program } from '../../src/plugin/program.ts';
import { Cluster } from '../../worlds/cluster/cluster.ts';
import { type ClusterNode, volumeGroup } from '../../worlds/cluster/cluster-node.ts';
import { Moorage } from '../../worlds/cluster/moorage.ts';
import { values } from '../../worlds/cluster/values.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { execute } from '../../worlds/host/processes.ts';
import { undoAfter } from '../../worlds/lvm/undo.ts';
import { CheckedSet } from './checked-set.ts';
import { holdEvictions } from './held-evictions.ts';
import { nothingLeft } from './nothing-left.ts';
import { story } from './story.ts';
import { TestNamespace } from './test-namespace.ts';

const plugin = program({ columns: undefined, colours: false });

/** The use cases of docs/use-cases, each with pods that write checksummed data. */
describe('a claim that loses its pod', () => {
  let cluster: Cluster;
  let moorage: Moorage;
  const afterwards = story();
  before(async () => {
    cluster = await Cluster.start({ nodes: 3 });
    moorage = await Moorage.install(cluster, { values: { ...values, localPv: { enabled: true, release: true } } });
  });
  after(() => cluster?.stop());
  const kubectlMoorage = (...words: string[]) =>
    runCaptured(plugin, words, { env: { KUBECONFIG: cluster.kubeconfig } });

  describe('in parallel', { concurrency: true }, () => {
    test('a static volume is given up, and emptied; it does not move', async (t) => {
      const [{ name: node }] = cluster.nodes as [ClusterNode];
      const expression = { key: 'kubernetes.io/hostname', operator: 'In', values: [node] };
      await cluster.kube.create(persistentVolumes, {
        metadata: {
          name: 'static',
          annotations: { [localPvOptions.vg]: volumeGroup, [localPvOptions.autoRelease]: 'true' },
        },
        spec: {
          storageClassName: 'static',
          capacity: { storage: '64Mi' },
          accessModes: ['ReadWriteOnce'],
          persistentVolumeReclaimPolicy: 'Retain',
          local: { path: '/mnt/pv/static' },
          nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions: [expression] }] } },
        },
      });
      undoAfter(t, () => cluster.kubectl('delete', 'pv', 'static'));
      const ns = await TestNamespace.forTest(t, cluster, 'static');
      await ns.claim('data', { storageClass: 'static', size: '64Mi' });
      await ns.pod('pod', { claims: { '/data': 'data' } });
      await ns.ready('pod');
      await ns.sh('pod', 'echo old >/data/file; sync');
      const annotate = (...annotations: readonly string[]) => ns.kubectl('annotate', 'pvc', 'data', ...annotations);
      const refusal = (reason: RegExp) => ns.event('PersistentVolumeClaim/data', reason);

      await annotate('moorage.dev/delete=graceful');
      await refusal(/nothing was done, .*: PersistentVolume static is static, and static volumes do not move/);
      await assert.rejects(kubectlMoorage('migrate', 'pvc/data', '-n', ns.name), /static volumes do not move/);
      await annotate('moorage.dev/delete=force');
      await refusal(/nothing was done, .*moorage\.dev\/confirm/);
      assert.equal(await ns.sh('pod', 'cat /data/file'), 'old');
      const why = await kubectlMoorage('why', 'pvc/data', '-n', ns.name);
      assert.match(why, new RegExp(`claim data is fine: its volume has .* on node ${node}, used by pod pod`));

      await annotate('moorage.dev/delete=force', 'moorage.dev/confirm=static');
      await eventually('the claim is gone', async () => !(await ns.found('data')));
      const phase = async () => (await cluster.kube.get(persistentVolumes, 'static'))?.status?.phase;
      await eventually('the volume is available again', async () => (await phase()) === 'Available');
      await ns.claim('next', { storageClass: 'static', size: '64Mi' });
      await ns.pod('next', { claims: { '/data': 'next' } });
      await ns.ready('next');
      assert.equal(await ns.sh('next', 'ls /data | grep -v lost+found || true'), '');
    });

    test('5. pods are scaled away: their claims are kept, or released by policy', async (t) => {
      await cluster.kube.create(storageClasses, {
        metadata: { name: 'shrinking' },
        provisioner: driverName,
        parameters: { [onScaleDown.annotation]: 'delete' },
        volumeBindingMode: 'WaitForFirstConsumer',
      });
      const kept = await CheckedSet.forTest(t, cluster, 'kept', { replicas: 2 });
      const shrinking = await CheckedSet.forTest(t, cluster, 'shrinking', { replicas: 2, storageClass: 'shrinking' });
      const [before, volumeId] = [await kept.volumeId(1), await shrinking.volumeId(1)];
      const holder = cluster.node(await shrinking.nodeOf(1));
      for (const set of [kept, shrinking]) await set.scale(1);
      for (const set of [kept, shrinking]) {
        await eventually(`pod ${set.pod(1)} is gone`, async () => (await set.nodeOf(1)) === '');
      }
      await eventually('the claim is gone', async () => !(await shrinking.ns.found(shrinking.claim(1))));
      const lvs = () => holder.shell(`lvs --noheadings -o lv_name ${volumeGroup}`);
      await eventually('so is the volume, from its disk', async () => !(await lvs()).includes(volumeId));

      for (const set of [kept, shrinking]) await set.scale(2);
      await kept.verify(1);
      assert.equal(await kept.volumeId(1), before);
      await shrinking.isFresh(1);
      await shrinking.verify(0);
    });
  });

  describe('because its machine fails', () => {
    let failed: ClusterNode;
    let patient: CheckedSet;
    let lost: CheckedSet;
    let lostId: string;
    const step = story();
    after(async () => {
      if (failed && !failed.machine.running) await failed.boot();
      for (const set of [patient, lost]) await set?.delete();
    });

    step('the only machine that pods may start on fails', async (t) => {
      const { spec } = await moorage.controller(); // it must go on
      failed = cluster.nodes.find(({ name }) => name !== spec?.nodeName) ?? assert.fail('there is one node');
      const others = cluster.nodes.filter((node) => node !== failed).map(({ name }) => name);
      undoAfter(t, () => cluster.kubectl('uncordon', ...others));
      await cluster.kubectl('cordon', ...others);
      patient = await CheckedSet.create(cluster, 'patient');
      lost = await CheckedSet.create(cluster, 'lost');
      lostId = await lost.volumeId();
      await failed.kill();
      await failed.becomes('NotReady');
    });

    step('1. the data is given up: the pod starts elsewhere, with a new volume', async () => {
      const says = await kubectlMoorage('drop', 'pod/lost-0', '-n', 'lost');
      assert.match(
        says,
        new RegExp(`^claim lost/data-lost-0: .* 64 MiB, .* on node ${failed.name}, which is not Ready`),
      );
      assert.equal(await lost.volumeId(), lostId, 'it has only said what would be lost');
      assert.match(await kubectlMoorage('drop', 'pod/lost-0', '-n', 'lost', '--yes'), /has the new volume pvc-/);
      await lost.isFresh();
      assert.notEqual(await lost.nodeOf(), failed.name);
    });

    step('2. the machine comes back: the pod waits for it, with its data', async () => {
      const volumeId = await patient.volumeId();
      await failed.boot();
      await moorage.whenServing(failed);
      await patient.verify();
      assert.equal(await patient.nodeOf(), failed.name);
      assert.equal(await patient.volumeId(), volumeId);
    });

    step('1. the machine comes back: what was given up is an orphan, and is not used again', async () => {
      const orphans = await eventually('it is listed', async () => {
        const found = await kubectlMoorage('orphans');
        return found.includes(lostId) && found;
      });
      assert.match(orphans, new RegExp(`DiskOnly +${lostId} +${failed.name} .*lost/data-lost-0`));
      await lost.writes();
      assert.notEqual(await lost.volumeId(), lostId);
      await failed.shell(`lvremove -y ${volumeGroup}/${lostId}`);
    });
  });

  test('3. its node is drained to be removed: volumes move first, the drain ends by itself, and other pods wait', async (t) => {
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
    undoAfter(t, () => cluster.kubectl('uncordon', ...others, drained.name));
    await cluster.kubectl('cordon', ...others);
    const annotations = { [onDrain.annotation]: 'move' };
    const [thick, thin, encrypted, staying, cache] = await Promise.all([
      CheckedSet.forTest(t, cluster, 'thick', { annotations }),
      CheckedSet.forTest(t, cluster, 'thin', { annotations, storageClass: 'moorage-thin' }),
      CheckedSet.forTest(t, cluster, 'encrypted', { storageClass: 'encrypted' }),
      CheckedSet.forTest(t, cluster, 'staying', { annotations: { [reserve.annotation]: 'true' } }),
      CheckedSet.forTest(t, cluster, 'cache', { annotations: { [onDrain.annotation]: 'drop' } }),
    ]);
    const moving = [thick, thin, encrypted];
    const releases = await Promise.all(moving.map(({ name }) => holdEvictions(cluster, name, name)));
    const volumeId = await staying.volumeId();

    const drain = execute(
      cluster.binaries.kubernetes.kubectl,
      [`--kubeconfig=${cluster.kubeconfig}`, 'drain', drained.name, '--ignore-daemonsets', '--delete-emptydir-data'],
      { timeout: 900_000 },
    );
    // No move can begin while the other nodes are cordoned, so the drain says that it waits for all of them.
    let says = '';
    drain.child.stderr?.on('data', (text: string) => {
      says += text;
    });
    const isTold = ({ name }: CheckedSet) => says.includes(`claim data-${name}-0 moves: Pending, cannot begin yet`);
    await Promise.race([drain, eventually('all moves wait for a target', async () => moving.every(isTold))]);
    assert.ok(moving.every(isTold), says);
    await cluster.kubectl('uncordon', ...others);
    for (const release of releases) await release();
    await drain;
    for (const set of moving) {
      await set.verify();
      assert.ok(others.includes(await set.nodeOf()), `${set.name} is elsewhere`);
    }
    await cache.isFresh();
    assert.ok(others.includes(await cache.nodeOf()), 'what may be lost starts elsewhere');
    assert.equal(await staying.nodeOf(), '');
    await staying.ns.event(`PersistentVolumeClaim/${staying.claim()}`, new RegExp(`kept on node ${drained.name}`));
    await cluster.kubectl('uncordon', drained.name);
    await staying.verify();
    assert.deepEqual([await staying.nodeOf(), await staying.volumeId()], [drained.name, volumeId]);
  });

  test('4. pods change and keep their volumes; a change that its node does not allow is announced, and a move makes it fit', async (t) => {
    const set = await CheckedSet.forTest(t, cluster, 'changing');
    const [from, volumeId] = [await set.nodeOf(), await set.volumeId()];
    const { name: to } = cluster.nodes.find(({ name }) => name !== from) ?? assert.fail('there is one node');
    /** Returns the API server's warnings. */
    const change = async (template: object) => {
      const [flags, patch] = [['-n', set.name, '--type=merge'], JSON.stringify({ spec: { template } })];
      const words = [`--kubeconfig=${cluster.kubeconfig}`, 'patch', 'statefulset', set.name, ...flags, '-p', patch];
      return (await execute(cluster.binaries.kubernetes.kubectl, words)).stderr;
    };

    assert.equal(await change({ metadata: { annotations: { release: 'second' } } }), '');
    await set.ns.kubectl('rollout', 'status', `statefulset/${set.name}`);
    await set.verify();
    assert.deepEqual([await set.nodeOf(), await set.volumeId()], [from, volumeId]);

    const warning = await change({ spec: { nodeSelector: { 'kubernetes.io/hostname': to } } });
    assert.match(warning, new RegExp(`would not start again on node ${from}, .* migrate pvc/data-${set.name}-0`));
    await kubectlMoorage('migrate', `pvc/${set.claim()}`, '-n', set.name, '--to', to);
    await set.verify();
    assert.equal(await set.nodeOf(), to);
  });

  afterwards('nothing is left on the nodes', () => nothingLeft(cluster, moorage));
});
