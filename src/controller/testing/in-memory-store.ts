import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { ManualClock } from '../../base/testing/manual-clock.ts';
import type { WantedVolume } from '../../csi/controller/volume-store.ts';
import { LogicalVolumeStore } from '../volumes/logical-volume-store.ts';
import { InMemoryCluster } from './in-memory-cluster.ts';

export const gibi = 1024n ** 3n;
export const wanted: WantedVolume = {
  name: 'pvc-A',
  nodeNames: ['a', 'b'],
  deviceClass: 'ssd',
  lvcreateOptionClass: '',
  isEncrypted: false,
  sizeBytes: gibi,
  claim: 'shop/db',
};
/** Of sources that are on the node of their copy. */
export const noCopies = { create: async () => assert.fail('nothing is copied from another node') };
export const never = new AbortController().signal;

/** For tests: CSI volumes on an in-memory API server with in-memory nodes. */
export function storeOf(t: TestContext) {
  const cluster = new InMemoryCluster(t);
  const clock = new ManualClock();
  return {
    cluster,
    clock,
    api: cluster.api,
    store: new LogicalVolumeStore({ objects: cluster.objects, copies: noCopies, clock }),
  };
}
