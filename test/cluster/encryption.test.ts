import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { driverName } from '../../src/api/names.ts';
import { storageClasses } from '../../src/kube/resource.ts';
import type { Cluster } from '../../worlds/cluster/cluster.ts';
import { volumeGroup } from '../../worlds/cluster/cluster-node.ts';
import type { Moorage } from '../../worlds/cluster/moorage.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { nothingLeft } from './nothing-left.ts';
import { sharedCluster } from './shared-cluster.ts';
import { story } from './story.ts';
import { TestNamespace } from './test-namespace.ts';

const [oldKey, newKey] = ['correct-horse-battery', 'staple-of-the-cluster'];
/** Replaced by csi-provisioner. */
const namespaceOfClaim = '${pvc.namespace}';
const base64 = (text: string) => Buffer.from(text).toString('base64');
const pod = { claims: { '/data': 'data' } };

describe('encrypted claims', () => {
  let cluster: Cluster;
  let moorage: Moorage;
  const afterwards = story();
  before(async () => {
    ({ cluster, moorage } = await sharedCluster());
    const ofCall = (call: string) => ({
      [`csi.storage.k8s.io/node-${call}-secret-name`]: 'disk-key',
      [`csi.storage.k8s.io/node-${call}-secret-namespace`]: namespaceOfClaim,
    });
    await createClass('encrypted', { ...ofCall('stage'), ...ofCall('expand') });
  });

  const createClass = (name: string, secrets: Readonly<Record<string, string>>) =>
    cluster.kube.create(storageClasses, {
      metadata: { name },
      provisioner: driverName,
      parameters: { 'moorage.dev/encryption': 'luks2', ...secrets },
      volumeBindingMode: 'WaitForFirstConsumer',
      allowVolumeExpansion: true,
    });

  const setKey = async (ns: TestNamespace, entries: Readonly<Record<string, string>>) => {
    const literals = Object.entries(entries).map(([name, value]) => `--from-literal=${name}=${value}`);
    await ns.kubectl('delete', 'secret', 'disk-key', '--ignore-not-found');
    await ns.kubectl('create', 'secret', 'generic', 'disk-key', ...literals);
  };

  test('a claim is encrypted on its disk, grows in use, is refused a wrong key, and gets a new one', async (t) => {
    const ns = await TestNamespace.forTest(t, cluster, 'encrypted');
    await setKey(ns, { passphrase: oldKey });
    await ns.claim('data', { storageClass: 'encrypted' });
    await ns.pod('first', pod);
    await ns.ready('first');
    await ns.sh('first', 'yes moorage-plaintext | head -c 1000000 >/data/file; sync');
    const node = await ns.nodeOf('first');
    const raw = `/dev/${volumeGroup}/${await ns.volumeId('data')}`;
    const onDisk = await node.shell(`blockdev --flushbufs ${raw}; grep -c moorage-plaintext ${raw} || true`);
    assert.equal(onDisk.trim(), '0');
    assert.match(await node.shell(`blkid -p ${raw}`), /TYPE="crypto_LUKS"/);

    await ns.grow('data', '200Mi');
    await ns.grown('data', '200Mi');
    const mebibytes = await ns.sh('first', 'df -m /data | tail -1 | tr -s " " | cut -d" " -f2');
    assert.ok(Number(mebibytes) > 140, `the filesystem has ${mebibytes} MiB`);

    await ns.deletePod('first');
    await setKey(ns, { passphrase: newKey });
    await ns.pod('refused', pod);
    await ns.event('PersistentVolumeClaim/data', /the key does not open volume .*; use the passphrase that it was/);
    await ns.deletePod('refused');
    const data = { passphrase: base64(newKey), 'previous-passphrase': base64(oldKey) };
    await ns.kubectl('patch', 'secret', 'disk-key', '--type=merge', `--patch=${JSON.stringify({ data })}`);
    await ns.pod('rekeyed', pod);
    await ns.ready('rekeyed');
    assert.equal(await ns.sh('rekeyed', 'grep -c moorage-plaintext /data/file'), '55555');

    const objects = await cluster.kubectl('get', '-A', '-o', 'yaml', 'pv,pvc,pods,events,logicalvolumes,nodestorages');
    const logs = await eventually('the change is logged', async () => {
      const texts = await Promise.all(cluster.nodes.map(async (each) => moorage.log(await moorage.agentOn(each))));
      return texts.some((text) => text.includes('key of encrypted volume changed')) && texts;
    });
    for (const key of [oldKey, newKey]) assert.ok(![objects, ...logs].some((text) => text.includes(key)));
  });

  test('a class that names no Secret is refused', async () => {
    const missing = /requires a Secret with the key; set csi\.storage\.k8s\.io\/node-stage-secret-name and/;
    await assert.rejects(createClass('keyless', {}), missing);
  });

  afterwards('nothing is left on the nodes', () => nothingLeft(cluster, moorage));
});
