import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Cluster } from '../../worlds/cluster/cluster.ts';
import type { ClusterNode } from '../../worlds/cluster/cluster-node.ts';
import { Moorage } from '../../worlds/cluster/moorage.ts';
import { CheckedSet } from './checked-set.ts';
import { nothingLeft } from './nothing-left.ts';

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

  test('nothing is left on the nodes', () => nothingLeft(cluster, moorage));
});
