import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { ManualClock } from '../../base/testing/manual-clock.ts';
import { silentLog } from '../../base/testing/silent-log.ts';
import { Workers } from '../../base/work.ts';
import { ObjectCache } from '../../kube/object-cache.ts';
import type { Event, PersistentVolumeClaim, Stored } from '../../kube/resource.ts';
import { ignoredClasses } from './ignored-classes.ts';
import { type WatchedClaim, watchedClaim } from './volume-claims.ts';

type Status = NonNullable<PersistentVolumeClaim['status']>;

const bound = (
  className: string | undefined,
  status: Status = {},
  volumeName = 'pvc-1',
): Stored<PersistentVolumeClaim> => ({
  metadata: { namespace: 'shop', name: 'db', uid: 'uid-1', resourceVersion: '1', creationTimestamp: '' },
  spec: { volumeName, ...(className !== undefined && { volumeAttributesClassName: className }) },
  status: { phase: 'Bound', ...status },
});

/** The leader's work on claims that a test puts. Only PersistentVolume pvc-1 is ours. */
function leader(t: TestContext) {
  const clock = new ManualClock();
  const claims = new ObjectCache<WatchedClaim>(silentLog);
  const written: Event[] = [];
  const work = ignoredClasses({
    client: {
      create: async (_resource, object) => {
        written.push(object as unknown as Event);
        return object as never;
      },
    },
    claims,
    persistentVolumes: { get: (name) => (name === 'pvc-1' ? { state: {} } : {}) },
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
    put: (claim: Stored<PersistentVolumeClaim>) => {
      revision += 1;
      claims.put('shop/db', {
        uid: claim.metadata.uid,
        resourceVersion: String(revision),
        object: watchedClaim(claim),
      });
    },
    /** What was reported by the end of this time. */
    after: async (ms: number) => {
      clock.advance(ms);
      for (let turn = 0; turn < 20; turn++) await setImmediate();
      return written.map(({ reason, note, regarding }) => `${regarding?.uid} ${reason}: ${note}`);
    },
  };
}

const reported = (className: string) =>
  `uid-1 ClassIgnored: VolumeAttributesClass ${className} is not applied, because csi-resizer does not act on it; ` +
  'IO limits need csi-provisioner 6 and csi-resizer 2 or newer on Kubernetes 1.34 or newer, ' +
  'or an API server that serves storage.k8s.io/v1beta1 with older ones; see docs/controller.md#io-limits';

test('a class on which csi-resizer does not act within 30 s is reported, once for each class', async (t) => {
  const { put, after } = leader(t);
  put(bound('bronze'));
  assert.deepEqual(await after(29_999), []);
  assert.deepEqual(await after(1), [reported('bronze')]);
  put(bound('bronze', { capacity: { storage: '2Gi' } }));
  assert.deepEqual(await after(60_000), [reported('bronze')], 'another change of the claim');
  put(bound('silver', { currentVolumeAttributesClassName: 'gold' }));
  assert.deepEqual(await after(30_000), [reported('bronze'), reported('silver')]);
});

test('a class that csi-resizer applies in time is not reported', async (t) => {
  const { put, after } = leader(t);
  put(bound('bronze'));
  await after(20_000);
  put(bound('bronze', { currentVolumeAttributesClassName: 'bronze' }));
  assert.deepEqual(await after(60_000), []);
});

for (const [what, claim] of [
  ['no class', bound(undefined)],
  ['the empty class', bound('')],
  ['a class that csi-resizer works on', bound('bronze', { modifyVolumeStatus: { status: 'InProgress' } })],
  ['a class before it is bound', bound('bronze', { phase: 'Pending' })],
  ['a class and a volume of another driver', bound('bronze', {}, 'pv-of-others')],
] as const) {
  test(`a claim with ${what} is not reported`, async (t) => {
    const { put, after } = leader(t);
    put(claim);
    assert.deepEqual(await after(60_000), []);
  });
}
