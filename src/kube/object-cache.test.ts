import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { silentLog } from '../base/testing/silent-log.ts';
import { type CachedObject, type Change, ObjectCache } from './object-cache.ts';

const state = (uid: string, resourceVersion: string): CachedObject<string> => ({
  uid,
  resourceVersion,
  object: `${uid}@${resourceVersion}`,
});

function reported(cache: ObjectCache<string>): string[] {
  const changes: string[] = [];
  cache.onChange(({ kind, key, object, previous }) => changes.push(`${kind} ${key} ${previous} → ${object}`));
  return changes;
}

test('the same state seen again is not a change', () => {
  const cache = new ObjectCache<string>(silentLog);
  const changes = reported(cache);
  cache.put('a', state('u', '1'));
  cache.put('a', state('u', '1'));
  cache.replace(new Map([['a', state('u', '1')]]));
  cache.put('a', state('u', '2'));
  assert.deepEqual(changes, ['added a undefined → u@1', 'updated a u@1 → u@2']);
});

test('an object with the same name but another uid is reported as deleted and added', () => {
  const cache = new ObjectCache<string>(silentLog);
  cache.put('a', state('old', '1'));
  const changes = reported(cache).splice(0);
  assert.deepEqual(changes, ['added a undefined → old@1']);
  const later = reported(cache);
  later.length = 0;
  cache.replace(new Map([['a', state('new', '5')]]));
  assert.deepEqual(later, ['deleted a old@1 → old@1', 'added a undefined → new@5']);
  cache.remove('a', 'old', 'old@6'); // late news of the predecessor
  assert.equal(cache.get('a'), 'new@5');
});

test('a handler that throws does not affect other handlers', () => {
  const cache = new ObjectCache<string>(silentLog);
  cache.onChange(() => {
    throw new Error('a bug');
  });
  const changes = reported(cache);
  cache.put('a', state('u', '1'));
  assert.deepEqual(changes, ['added a undefined → u@1']);
});

test('listeners of one key are called for that key only, until they unsubscribe', () => {
  const cache = new ObjectCache<string>(silentLog);
  let calls = 0;
  const stop = cache.onChangeOf('a', () => {
    calls += 1;
  });
  cache.put('b', state('u', '1'));
  cache.put('a', state('v', '2'));
  stop();
  cache.put('a', state('v', '3'));
  assert.equal(calls, 1);
});

test('a copy built from the changes always equals the cache', () => {
  const key = fc.constantFrom('a', 'b', 'c');
  const version = fc.record({ uid: fc.constantFrom('u', 'v'), resourceVersion: fc.constantFrom('1', '2', '3') });
  const step = fc.oneof(
    fc.record({ act: fc.constant('put' as const), key, version }),
    fc.record({ act: fc.constant('remove' as const), key, version }),
    fc.record({ act: fc.constant('replace' as const), all: fc.dictionary(key, version) }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 30 }), (steps) => {
      const cache = new ObjectCache<string>(silentLog);
      const mirror = new Map<string, string>();
      cache.onChange((change) => follow(mirror, change));
      for (const step of steps) {
        if (step.act === 'put') cache.put(step.key, state(step.version.uid, step.version.resourceVersion));
        if (step.act === 'remove') cache.remove(step.key, step.version.uid);
        if (step.act === 'replace') {
          const all = Object.entries(step.all).map(
            ([key, version]) => [key, state(version.uid, version.resourceVersion)] as const,
          );
          cache.replace(new Map(all));
        }
        assert.deepEqual([...mirror.values()].sort(), cache.list().sort());
      }
    }),
  );
});

/** Rejects changes that do not fit the changes before. */
function follow(mirror: Map<string, string>, { kind, key, object, previous }: Change<string>): void {
  assert.equal(mirror.get(key), previous);
  if (kind === 'deleted') mirror.delete(key);
  else mirror.set(key, object);
  if (kind === 'updated') assert.notEqual(object, previous);
}
