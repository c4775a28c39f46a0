import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { logicalVolumes } from '../../src/api/logical-volume.ts';
import { driverName } from '../../src/api/names.ts';
import { type StoredVolumeMove, volumeMoves } from '../../src/api/volume-move.ts';
import { runCaptured } from '../../src/base/testing/run-captured.ts';
import { storageClasses } from '../../src/kube/resource.ts';
import { kubectlMoorage } from '../../src/plugin/program.ts';
import type { Cluster } from '../../worlds/cluster/cluster.ts';
import type { Moorage } from '../../worlds/cluster/moorage.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { nothingLeft } from './nothing-left.ts';
import { sharedCluster } from './shared-cluster.ts';
import { StatefulSet } from './stateful-set.ts';

/** Writes numbered lines with their checksums until its pod stops. */
const writer =
  'i=0; while :; do i=$((i+1)); echo "$i $(echo $i | sha256sum)" >>/data/writes; [ $((i % 20)) != 0 ] || sync; done';
/** Prints the numbers of lines that are not as they were written. */
const wrongLines =
  'i=0; while read n s _; do i=$((i+1)); [ $n = $i ] || echo $i; ' +
  '[ $((i % 100)) != 0 ] || [ "$(echo $n | sha256sum | cut -d" " -f1)" = $s ] || echo $n; done </data/writes';

/** A StorageClass of encrypted volumes, which are copied as they are on the disk. */
const encrypted = 'moorage-encrypted';

describe('a volume that moves', () => {
  let cluster: Cluster;
  let moorage: Moorage;
  before(async () => {
    ({ cluster, moorage } = await sharedCluster());
    await cluster.kubectl('create', 'secret', 'generic', 'moves-key', '--from-literal=passphrase=horse-battery');
    await cluster.kube.create(storageClasses, {
      metadata: { name: encrypted },
      provisioner: driverName,
      parameters: {
        'moorage.dev/encryption': 'luks2',
        'csi.storage.k8s.io/node-stage-secret-name': 'moves-key',
        'csi.storage.k8s.io/node-stage-secret-namespace': 'default',
        'csi.storage.k8s.io/node-publish-secret-name': 'moves-key',
        'csi.storage.k8s.io/node-publish-secret-namespace': 'default',
      },
      volumeBindingMode: 'WaitForFirstConsumer',
    });
  });

  const sh = (set: StatefulSet, script: string) => cluster.kubectl('exec', `${set.name}-0`, '--', 'sh', '-ec', script);
  const kubectlMoorageOf = (...words: string[]) =>
    runCaptured(kubectlMoorage({ columns: undefined, colours: false }), words, {
      env: { KUBECONFIG: cluster.kubeconfig },
    });

  /** A pod that writes to a volume with 20 MiB of random data; returns what its volume must still have after the move. */
  async function writing(name: string, storageClass: string) {
    const set = await StatefulSet.create(cluster, name, { storageClass });
    await set.ready();
    const sum = await sh(set, 'dd if=/dev/urandom of=/data/random bs=1M count=20 && sync && sha256sum </data/random');
    await sh(set, `(${writer}) >/dev/null 2>&1 &`);
    const count = () => sh(set, 'wc -l </data/writes').then(Number);
    const written = await eventually('it writes', async () => (await count()) || undefined);
    const before = { node: await set.nodeOf(), volumeId: await set.volumeId(), line: (await set.lines())[0] };
    return { set, before, sum, written, count };
  }

  async function hasMoved({ set, before, sum, written, count }: Awaited<ReturnType<typeof writing>>): Promise<void> {
    const { name: to } =
      cluster.nodes.find(({ name }) => name !== before.node) ?? assert.fail('there is no other node');
    await eventually(`the pod is on ${to}`, async () => (await set.nodeOf()) === to, {
      explain: () => cluster.tails(),
    });
    await set.ready();
    assert.equal((await set.lines())[0], before.line);
    assert.equal(await sh(set, 'sha256sum </data/random'), sum);
    assert.ok((await count()) >= written, 'lines that were there before the move');
    assert.equal(await sh(set, wrongLines), '');
    assert.notEqual(await set.volumeId(), before.volumeId);
    const { items } = await cluster.kube.list(logicalVolumes, { fieldSelector: `status.volumeID=${before.volumeId}` });
    assert.deepEqual(items, [], 'the source is removed');
    await set.delete();
    await cluster.kubectl('delete', 'volumemove', (await moveOf(set))?.metadata.name ?? '');
  }

  const moveOf = async ({ name }: StatefulSet): Promise<StoredVolumeMove | undefined> => {
    const { items } = await cluster.kube.list(volumeMoves, { namespace: 'default' });
    return items.find(({ spec }) => spec.claimName === `data-${name}-0`);
  };

  describe('one after the other, as the nodes have one move at a time', { concurrency: 4 }, () => {
    for (const storageClass of ['moorage', 'moorage-thin', 'moorage-file', encrypted]) {
      test(`${storageClass}: all data is on the other node, and nothing on the first`, async () => {
        const volume = await writing(`moves-${storageClass}`, storageClass);
        const output = await kubectlMoorageOf('migrate', `pod/${volume.set.name}-0`);
        assert.match(
          output,
          new RegExp(`: Done, moved from node ${volume.before.node} .* could not use it for \\d+ s$`),
        );
        const { verdict } = (await moveOf(volume.set))?.status ?? {};
        assert.ok(verdict && verdict.bytes > 20 * 1024 ** 2, JSON.stringify(verdict));
        await hasMoved(volume);
      });
    }
  });

  test('both agents and the controller are killed during the copy, and it goes on', async () => {
    const volume = await writing('killed', 'moorage');
    await kubectlMoorageOf('migrate', 'pvc/data-killed-0', '--rate-limit=2Mi', '--wait=false');
    await eventually('it copies', async () => Boolean((await moveOf(volume.set))?.status?.target?.copiedBytes));
    for (const node of cluster.nodes) await moorage.killAgent(node);
    await moorage.killController();
    await eventually('it is done', async () => (await moveOf(volume.set))?.status?.phase === 'Done', {
      explain: async () => `${JSON.stringify((await moveOf(volume.set))?.status)}\n${await cluster.tails()}`,
    });
    await hasMoved(volume);
  });

  test('nothing is left on the nodes', () => nothingLeft(cluster, moorage));
});
