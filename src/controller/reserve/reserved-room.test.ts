import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { driverName, reserve, topologyKey } from '../../api/names.ts';
import { ManualClock } from '../../base/testing/manual-clock.ts';
import { silentLog } from '../../base/testing/silent-log.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Pod, Stored } from '../../kube/resource.ts';
import type { ClaimUsers } from '../claims/claim-users.ts';
import { toPlaceholder } from './placeholder.ts';
import { reservedRoom } from './reserved-room.ts';

const stamps = { resourceVersion: '1', creationTimestamp: '2026-01-01T00:00:00Z' };
const inShop = (name: string) => ({ ...stamps, name, namespace: 'shop', uid: `uid-of-${name}` });
const required = {
  nodeSelectorTerms: [{ matchExpressions: [{ key: topologyKey, operator: 'In', values: ['a'] }] }],
};

/** A pod that was refused because its placeholder keeps it out of its node, which takes pods. */
function refusedPod() {
  const pod: Stored<Pod> = {
    metadata: inShop('db-0'),
    spec: { containers: [{ name: 'main' }] },
    status: { conditions: [{ type: 'PodScheduled', status: 'False' }] },
  };
  const claim = {
    metadata: { ...inShop('data-db-0'), annotations: { [reserve.annotation]: 'true' } },
    spec: { volumeName: 'pv' },
  };
  const template = toPlaceholder(pod, claim, { namespace: 'moorage-system', ownerUid: 'd' });
  const placeholder = {
    ...template,
    metadata: { ...stamps, ...template.metadata, name: 'reserve-uid-of-data-db-0', uid: 'placeholder' },
    status: { nominatedNodeName: 'a' },
  };
  const csi = { driver: driverName, volumeHandle: 'v' };
  const stored: Record<string, object> = {
    persistentvolumeclaims: claim,
    persistentvolumes: { metadata: { ...stamps, name: 'pv', uid: 'v' }, spec: { csi, nodeAffinity: { required } } },
    nodes: { metadata: { ...stamps, name: 'a', uid: 'a' }, spec: {} },
  };
  const calls: string[] = [];
  const client = {
    get: async ({ plural }: { plural: string }) => stored[plural],
    list: async () => ({ items: calls.includes('delete placeholder') ? [] : [placeholder] }),
    patch: async (_: unknown, name: string, { body }: { body: Pick<Pod, 'status'> }) => {
      calls.push(`nominate ${name}`);
      Object.assign(pod, { status: { ...pod.status, ...body.status } });
    },
    delete: async () => void calls.push('delete placeholder'),
  };
  return {
    calls,
    client: client as unknown as KubeClient,
    users: { of: async () => [pod], onChange: () => () => {} } as unknown as ClaimUsers,
    /** What kube-scheduler does after an attempt that failed. */
    withdraw: () => Object.assign(pod, { status: { conditions: pod.status?.conditions } }),
  };
}

test('a placeholder stays until the nomination of its pod has outlived the attempts of the scheduler', async () => {
  const { calls, client, users, withdraw } = refusedPod();
  const clock = new ManualClock();
  const watch = { get: () => undefined, list: () => [], onChange: () => () => {}, whenSynced: async () => {} };
  const work = reservedRoom({
    client,
    users,
    clock,
    log: silentLog,
    reporter: { controller: driverName, instance: 'test' },
    namespace: 'moorage-system',
    claims: watch,
    placeholders: watch,
    nodes: watch,
    moves: watch,
    driver: watch,
    scheduler: watch,
  });
  const isWaiting = async () => {
    for (let turn = 0; clock.timers === 0 && turn < 1_000; turn++) await setImmediate();
    assert.equal(clock.timers, 1);
  };
  const done = work.reconcile('shop/data-db-0', new AbortController().signal, (promise) => promise);
  await isWaiting();
  withdraw();
  clock.advance(1_000);
  await isWaiting();
  assert.deepEqual(calls, ['nominate db-0', 'nominate db-0']);
  clock.advance(1_000);
  await done;
  assert.deepEqual(calls, ['nominate db-0', 'nominate db-0', 'delete placeholder']);
});
