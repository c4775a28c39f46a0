import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { pageOf } from './paging.ts';

const whole = { maxEntries: 0, startingToken: '' };
const entries = (...ids: string[]) => ids.map((id) => ({ id }));

test('without a limit there is one page', () => {
  assert.deepEqual(pageOf(entries('b', 'a'), whole), { items: entries('a', 'b'), nextToken: '' });
  assert.deepEqual(pageOf([], { ...whole, maxEntries: 3 }), { items: [], nextToken: '' });
});

test('paging lists every entry once, even if others are removed in between', () => {
  const ids = fc.uniqueArray(fc.uuid(), { maxLength: 20 });
  fc.assert(
    fc.property(ids, fc.integer({ min: 1, max: 7 }), fc.infiniteStream(fc.boolean()), (all, maxEntries, goes) => {
      const present = new Set(all);
      const listed: string[] = [];
      const gone = new Set<string>();
      let startingToken = '';
      do {
        const page = pageOf(entries(...present), { maxEntries, startingToken });
        assert.ok(page.items.length <= maxEntries);
        listed.push(...page.items.map(({ id }) => id));
        startingToken = page.nextToken;
        for (const id of [...present]) {
          if (!goes.next().value) continue;
          present.delete(id);
          gone.add(id);
        }
      } while (startingToken !== '');
      assert.equal(new Set(listed).size, listed.length, 'no entry is listed twice');
      assert.deepEqual(
        all.filter((id) => !listed.includes(id) && !gone.has(id)),
        [],
        'no entry is skipped',
      );
    }),
  );
});

test('a foreign token and a negative limit are refused', () => {
  assert.throws(() => pageOf([], { ...whole, startingToken: '7' }), {
    code: 'Aborted',
    message: /^invalid starting_token "7"/,
  });
  assert.throws(() => pageOf([], { ...whole, maxEntries: -1 }), { code: 'InvalidArgument', message: /^max_entries/ });
});
