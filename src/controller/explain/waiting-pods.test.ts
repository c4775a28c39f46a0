import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { ManualClock } from '../../base/testing/manual-clock.ts';
import { silentLog } from '../../base/testing/silent-log.ts';
import { Workers } from '../../base/work.ts';
import { bound, type Change, claim, node, pod, storageClass, volumeOf } from '../../explain/testing/objects.ts';
import { ObjectCache } from '../../kube/object-cache.ts';
import type { Event, KubeObject, Node, Stored } from '../../kube/resource.ts';
import { type WaitingPod, waitingPod } from '../node-removal/stranded-pods.ts';
import { waitingPods } from './waiting-pods.ts';

const owned = bound(claim('data'));
const waiting = pod('db-0', ['data']);

/** A leader, with a pod whose data is on node b. */
function leader(t: TestContext, first: Stored<Node>) {
  const clock = new ManualClock();
  const pods = new ObjectCache<WaitingPod | undefined>(silentLog);
  const written: Event[] = [];
  let current = first;
  const empty = { list: () => [], whenSynced: async () => undefined };
  const objects: Readonly<Record<string, () => readonly KubeObject[]>> = {
    pods: () => [waiting],
    storageclasses: () => [storageClass()],
    nodes: () => [current],
    persistentvolumeclaims: () => [owned],
    persistentvolumes: () => [volumeOf(owned, 'b')],
  };
  const work = waitingPods({
    client: {
      create: async (_resource, object) => {
        written.push(object as unknown as Event);
        return object as never;
      },
      get: async ({ plural }, name) => objects[plural]?.().find(({ metadata }) => metadata?.name === name) as never,
      list: async ({ plural }) => ({ items: objects[plural]?.() ?? [] }) as never,
    },
    pods,
    volumes: empty,
    moves: empty,
    csiNodes: empty,
    published: empty,
    reporter: { controller: 'topolvm.io', instance: 'one' },
    clock,
  });
  const stop = new AbortController();
  const running = new Workers([work], { clock, log: silentLog, random: () => 0 }).lead(stop.signal);
  t.after(async () => {
    stop.abort();
    await running;
  });
  let revision = 0;
  return {
    /** The scheduler has looked at the pod, with the node in this state. */
    looked: (change: Change = {}) => {
      current = node('b', 50n, change);
      revision += 1;
      const object = waitingPod({ ...waiting, metadata: { ...waiting.metadata, resourceVersion: String(revision) } });
      pods.put('prod/db-0', { uid: waiting.metadata.uid, resourceVersion: String(revision), object });
    },
    /** What was reported by the end of this time. */
    after: async (ms: number) => {
      clock.advance(ms);
      for (let turn = 0; turn < 50; turn++) await setImmediate();
      return written.map(({ reason, note, regarding }) => `${regarding?.uid} ${reason}: ${note}`);
    },
  };
}

test('the claim of a pod that waits for its node says so, once for each reason', async (t) => {
  const { looked, after } = leader(t, node('b', 50n));
  const cordoned = { spec: { unschedulable: true } };
  const first =
    'uid-data NodeCordoned: claim data waits: pod db-0 is not scheduled: its data is on node b, which is cordoned; run kubectl uncordon b';
  const second =
    'uid-data NodeTainted: claim data waits: pod db-0 is not scheduled: its data is on node b: it has the taint disk:NoSchedule; remove the taint, or give the pod a toleration';
  looked(cordoned);
  assert.deepEqual(await after(9_999), [], 'it may be scheduled yet');
  assert.deepEqual(await after(1), [first]);
  looked(cordoned);
  assert.deepEqual(await after(10_000), [first]);
  looked({ spec: { taints: [{ key: 'disk', effect: 'NoSchedule' }] } });
  assert.deepEqual(await after(10_000), [first, second]);
  looked();
  assert.deepEqual(await after(10_000), [first, second], 'no obstacle is seen');
});
