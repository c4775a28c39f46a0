import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { silentLog } from '../base/testing/silent-log.ts';
import { VolumeCopies } from './volume-copies.ts';

const newCopy = (id: string) => ({ id, source: 'source', sizeBytes: 1n });

test('a copy that waits for its turn is cancelled at once and cleans up', async () => {
  const copies = new VolumeCopies(silentLog);
  const long = Promise.withResolvers<void>();
  const begun: string[] = [];
  const begin = (id: string) =>
    copies.begin(newCopy(id), async ({ signal }) => {
      begun.push(id);
      signal.throwIfAborted();
      await long.promise;
    });
  for (const id of ['one', 'two', 'three', 'four']) begin(id);
  await setImmediate();
  assert.deepEqual(begun, ['one', 'two']);

  assert.equal(await copies.cancel('three'), true);
  assert.deepEqual(begun, ['one', 'two', 'three'], 'whatever it has prepared, only its own work can clear away');
  assert.equal(copies.get('three'), undefined);

  const others = ['one', 'two', 'four'].flatMap((id) => copies.get(id)?.whole ?? []);
  long.resolve();
  await Promise.all(others);
  assert.deepEqual(begun, ['one', 'two', 'three', 'four']);
});
