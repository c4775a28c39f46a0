import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { checkAddedTags } from '../names-and-tags.ts';
import { positionIn, positionTag } from './position.ts';

const id = fc.stringMatching(/^[a-z]+-[0-9a-f]{4,12}$/);
const partial = fc.record({ checkpoint: id, offset: fc.nat(2 ** 31), isFirst: fc.boolean() });

test('a position is the same after a restart', () => {
  const position = fc.oneof(fc.record({ complete: id }), fc.record({ partial }), fc.record({ complete: id, partial }));
  fc.assert(
    fc.property(position, (random) => {
      const position = structuredClone(random);
      const tag = positionTag(position);
      checkAddedTags([tag]);
      assert.deepEqual(positionIn(['a', tag]), position);
    }),
  );
});

test('only a volume without a position has no data: what cannot be read is a part of something unknown', () => {
  assert.deepEqual(positionIn(['a']), {});
  for (const value of ['', ':', '::0', 'a:b', 'a:b:c', '!', 'a:b:-1']) {
    assert.equal(positionIn([`moorage.dev/position=${value}`]).partial?.checkpoint, 'unknown', value);
  }
});
