import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, describe, type TestContext, test } from 'node:test';
import { localPvAnnotations, localPvOptions } from '../../src/api/local-pv.ts';
import { type PersistentVolume, persistentVolumes, type Stored } from '../../src/kube/resource.ts';
import { Cluster } from '../../worlds/cluster/cluster.ts';
import { type ClusterNode, volumeGroup } from '../../worlds/cluster/cluster-node.ts';
import { helmOn, installLocalPv } from '../../worlds/cluster/local-pv.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { undoAfter } from '../../worlds/lvm/undo.ts';
import { dirOf, namespace } from '../chart/chart.ts';
import { story } from './story.ts';
import { TestNamespace } from './test-namespace.ts';

/** The volume group of the examples, and of k8s-local-pv. */
const group = 'storage_bulk';
const examples = join(import.meta.dirname, '..', '..', 'deploy', 'examples', 'local-pv');
const key = 'correct-horse-battery';

describe('static volumes, from the chart local-pv alone', () => {
  let cluster: Cluster;
  let node: ClusterNode;
  const afterwards = story();
  before(async () => {
    cluster = await Cluster.start({ nodes: 1 });
    [node] = cluster.nodes as [ClusterNode];
    await node.shell(`vgreduce ${volumeGroup} /dev/ubdb && vgcreate ${group} /dev/ubdb`);
    await cluster.kubectl('label', 'node', node.name, 'node-id.k8s.portavita.net/nodeid=node01');
    await installLocalPv(cluster, 'watcherExtraOptions={-R}', 'localPv.cryptSecrets={disk-key}');
    const secret = ['create', 'secret', 'generic', 'disk-key', `--from-literal=passphrase=${key}`];
    await cluster.kubectl('-n', namespace, ...secret);
  });
  after(() => cluster?.stop());

  const found = (name: string) => cluster.kube.get(persistentVolumes, name);
  const annotation = async (name: string, annotation: string) =>
    (await found(name))?.metadata.annotations?.[annotation];
  const until = (what: string, name: string, holds: (volume: Stored<PersistentVolume>) => boolean) =>
    eventually(
      `PersistentVolume ${name} ${what}`,
      async () => {
        const volume = await found(name);
        return volume !== undefined && holds(volume);
      },
      { explain: () => cluster.kubectl('describe', 'pv', name) },
    );
  const becomes = (name: string, status: string) =>
    until(`is ${status}`, name, ({ metadata }) => metadata.annotations?.[localPvAnnotations.status] === status);
  /** Installs a release of this name, until the end of the test. */
  const volumes = async (t: TestContext, storageClass: string, ...values: readonly string[]) => {
    const set = [`storageClass=${storageClass}`, 'size=64Mi', 'nodes={node01}', ...values];
    const words = set.map((value) => `--set=${value}`);
    undoAfter(t, () => helmOn(cluster, 'uninstall', storageClass, '--wait=false', '--ignore-not-found'));
    await helmOn(cluster, 'install', storageClass, dirOf('local-volumes'), ...words);
  };
  /** Emptied after the test. */
  const namespaceFor = async (t: TestContext, name: string) => {
    const ns = await TestNamespace.create(cluster, name);
    undoAfter(t, () => ns.kubectl('delete', 'pod,pvc', '--all'));
    return ns;
  };
  const logicalVolumes = async () => (await node.shell(`lvs --noheadings -o lv_name ${group}`)).split(/\s+/);
  const onDisk = async (name: string, text: string) =>
    Number(await node.shell(`sync; echo 3 >/proc/sys/vm/drop_caches; grep -ac ${text} /dev/${group}/${name} || true`));

  describe('in parallel', { concurrency: 4 }, () => {
    test('every example is processed, each mistake gets a message that names the fault, and others are left alone', async (t) => {
      undoAfter(t, () => cluster.kubectl('delete', '--ignore-not-found', `-f${join(examples, 'errors.yaml')}`));
      await cluster.kubectl('apply', `-f${join(examples, 'errors.yaml')}`);
      await assert.rejects(
        cluster.kubectl('apply', `-f${join(examples, 'no-node-affinity.yaml')}`),
        /Local volume requires node affinity/,
      );
      const faults: Readonly<Record<string, RegExp>> = {
        'wrong-mountbase': /spec.local.path is .*: write \/mnt\/pv\/wrong-mountbase/,
        'localpath-mismatch': /spec.local.path is .*: write \/mnt\/pv\/localpath-mismatch/,
        'no-such-node': /no node matches spec.nodeAffinity/,
        'unknown-vg': /volume group/,
        'unknown-fs': /fsType is .*; use one of ext4, xfs, btrfs/,
        'too-big': /free/,
        'bad-option': /mountOpts contains/,
        'delete-policy': /persistentVolumeReclaimPolicy is Delete/,
      };
      for (const [name, message] of Object.entries(faults)) {
        await becomes(name, 'Not-Processed-Errors');
        const says = ({ metadata }: Stored<PersistentVolume>) =>
          metadata.annotations?.[localPvAnnotations.message] ?? '';
        await until(`says ${message}`, name, (volume) => message.test(says(volume)));
      }
      for (const name of ['noannotations', 'allannotations']) await becomes(name, 'Processed');
      await eventually('there is an Event about the unknown field', async () =>
        /dummyField/.test(await cluster.kubectl('describe', 'pv', 'allannotations')),
      );
      assert.equal(await annotation('nfs', localPvAnnotations.status), undefined);
      assert.equal(await annotation('noannotations', localPvOptions.mountOpts), 'noexec');
      assert.match(await node.shell('findmnt -no OPTIONS /run/moorage/local-pv/noannotations'), /noexec/);
      await cluster.kubectl('delete', `-f${join(examples, 'errors.yaml')}`);
      assert.ok(!(await logicalVolumes()).includes('noannotations'));
    });

    test('a volume is emptied when its claim is deleted, and the next claimant cannot read the old data', async (t) => {
      await volumes(t, 'scratch', 'autoRelease=true');
      const ns = await namespaceFor(t, 'scratch');
      await ns.claim('first', { storageClass: 'scratch', size: '64Mi' });
      await ns.pod('first', { claims: { '/data': 'first' } });
      await ns.ready('first');
      await ns.sh('first', 'yes moorage-secret | head -c 1000000 >/data/file; sync');
      assert.notEqual(await onDisk('scratch-node01', 'moorage-secret'), 0);
      await ns.deletePod('first');
      await ns.kubectl('delete', 'pvc', 'first');
      await until('is Available', 'scratch-node01', ({ status }) => status?.phase === 'Available');
      assert.equal(await onDisk('scratch-node01', 'moorage-secret'), 0);
      await ns.claim('second', { storageClass: 'scratch', size: '64Mi' });
      await ns.pod('second', { claims: { '/data': 'second' } });
      await ns.ready('second');
      assert.equal(await ns.sh('second', 'ls /data | grep -v lost+found || true'), '');
    });

    test('an encrypted volume has no plaintext on its disk, and its key is in no argument, log or object', async (t) => {
      await volumes(t, 'secret', 'cryptSecret=disk-key');
      const ns = await namespaceFor(t, 'secret');
      await ns.claim('data', { storageClass: 'secret', size: '64Mi' });
      await ns.pod('pod', { claims: { '/data': 'data' } });
      await ns.ready('pod');
      await ns.sh('pod', 'yes moorage-plaintext | head -c 1000000 >/data/file; sync');
      assert.equal(await onDisk('secret-node01', 'moorage-plaintext'), 0);
      assert.match(await node.shell(`blkid -p /dev/${group}/secret-node01`), /TYPE="crypto_LUKS"/);
      const objects = await cluster.kubectl('get', 'pv,events,pods,configmaps', '-A', '-oyaml');
      const logs = await cluster.kubectl('-n', namespace, 'logs', '-lapp.kubernetes.io/name=moorage', '--tail=-1');
      const processes = await node.shell('cat /proc/[0-9]*/cmdline | tr "\\0" " "');
      for (const text of [objects, logs, processes]) assert.ok(!text.includes(key));
    });

    test('a volume as k8s-local-pv leaves it is taken over with its data', async (t) => {
      await node.shell(
        `lvcreate --yes -L 64M -n legacy ${group} && mkfs.ext4 -q /dev/${group}/legacy && mkdir -p /mnt/pv/legacy &&
         mount -o noexec /dev/${group}/legacy /mnt/pv/legacy && echo kept >/mnt/pv/legacy/file`,
      );
      const annotations = {
        ...{ [localPvOptions.vg]: group, [localPvOptions.fsType]: 'ext4', [localPvOptions.mountOpts]: 'noexec' },
        ...{ [localPvAnnotations.status]: 'Processed', [localPvAnnotations.node]: 'node01' },
        ...{ [localPvAnnotations.size]: '64M', [localPvAnnotations.mountPoint]: '/mnt/pv/legacy' },
      };
      const expression = { key: 'node-id.k8s.portavita.net/nodeid', operator: 'In', values: ['node01'] };
      undoAfter(t, () => cluster.kubectl('delete', 'pv', 'legacy'));
      await cluster.kube.create(persistentVolumes, {
        metadata: { name: 'legacy', annotations },
        spec: {
          storageClassName: 'legacy',
          capacity: { storage: '64Mi' },
          accessModes: ['ReadWriteOnce'],
          local: { path: '/mnt/pv/legacy' },
          nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions: [expression] }] } },
        },
      });
      await until(
        'is adopted',
        'legacy',
        ({ metadata }) => metadata.annotations?.[localPvAnnotations.node] === node.name,
      );
      await eventually('the volume is tagged', async () =>
        /local-pv=legacy/.test(await node.shell(`lvs --noheadings -o lv_tags ${group}/legacy`)),
      );
      await becomes('legacy', 'Processed');
      const ns = await namespaceFor(t, 'legacy');
      await ns.claim('data', { storageClass: 'legacy', size: '64Mi' });
      await ns.pod('pod', { claims: { '/data': 'data' } });
      await ns.ready('pod');
      assert.equal(await ns.sh('pod', 'cat /data/file'), 'kept');
    });
  });

  test('after a reboot the pod waits for the agent, writes nothing to the root filesystem, and gets its data back', async (t) => {
    await volumes(t, 'search', 'volumesPerNode=2');
    const ns = await namespaceFor(t, 'search');
    for (const name of ['one', 'two']) await ns.claim(name, { storageClass: 'search', size: '64Mi' });
    const pod = { claims: { '/one': 'one', '/two': 'two' }, script: 'test -e /one/file && date >>/one/starts' };
    await ns.pod('pod', pod);
    await ns.ready('pod');
    await ns.sh('pod', 'head -c 1000000 /dev/urandom >/one/file; sha256sum </one/file >/two/sum; sync');

    const hold = (value: string | null) =>
      cluster.kubectl(
        ...['-n', namespace, 'patch', 'daemonset', 'moorage-node', '--type=merge'],
        `--patch=${JSON.stringify({ spec: { template: { spec: { nodeSelector: { hold: value } } } } })}`,
      );
    undoAfter(t, () => hold(null));
    await hold('back');
    await eventually('there is no agent', async () => {
      const agents = await cluster.kubectl(
        '-n',
        namespace,
        'get',
        'pods',
        '-lapp.kubernetes.io/component=node',
        '-oname',
      );
      return agents.trim() === '';
    });
    await node.kill();
    await node.boot();
    await ns.event('Pod/pod', /\/mnt\/pv\/search-node01-[12]/);
    assert.equal(await node.shell('find /mnt/pv -type f; ls /run/moorage/local-pv 2>/dev/null || true'), '');

    await eventually('the kubelet has noticed that the pod does not run', async () => {
      const ready = 'jsonpath={.status.conditions[?(@.type=="Ready")].status}';
      return (await ns.kubectl('get', 'pod', 'pod', '-o', ready)) === 'False';
    });

    await hold(null);
    await ns.ready('pod');
    assert.equal(await ns.sh('pod', 'sha256sum </one/file'), await ns.sh('pod', 'cat /two/sum'));
  });

  test('deleting the PersistentVolumes removes their volumes, but none that a claim is bound to', async (t) => {
    await volumes(t, 'bound', 'volumesPerNode=2');
    const ns = await namespaceFor(t, 'bound');
    await ns.claim('data', { storageClass: 'bound', size: '64Mi' });
    await ns.pod('pod', { claims: { '/data': 'data' } });
    await ns.ready('pod');
    const bound = (await ns.found('data'))?.spec?.volumeName ?? '';
    const free = ['bound-node01-1', 'bound-node01-2'].find((name) => name !== bound) ?? '';
    await becomes(free, 'Processed');
    await helmOn(cluster, 'uninstall', 'bound', '--wait=false');
    await eventually('the free one is gone', async () => (await found(free)) === undefined);
    const left = await logicalVolumes();
    assert.deepEqual([left.includes(free), left.includes(bound)], [false, true]);
    await ns.kubectl('delete', 'pod,pvc', '--all');
    await eventually('so is the other one', async () => (await found(bound)) === undefined);
    assert.ok(!(await logicalVolumes()).includes(bound));
  });

  afterwards('nothing is left on the node', async () => {
    await eventually('no PersistentVolume is left', async () => {
      const { items } = await cluster.kube.list(persistentVolumes);
      return items.length === 0;
    });
    assert.deepEqual((await logicalVolumes()).filter(Boolean), []);
  });
});
