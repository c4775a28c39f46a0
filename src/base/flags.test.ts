import assert from 'node:assert/strict';
import { test } from 'node:test';
import { duration, list, oneOf, onOff, quantity } from './flags.ts';

test('a duration has the format of Go', () => {
  assert.equal(duration.parse('15s'), 15_000);
  assert.equal(duration.parse('1h1m30s500ms'), 3_690_500);
  assert.equal(duration.show?.(15_000), '15s');
  for (const wrong of ['', '15', 's', '-1s', '1.5s', '15s ', '1d']) assert.throws(() => duration.parse(wrong), wrong);
});

test('a quantity and a list are parsed, and shown in the same format', () => {
  assert.equal(quantity.parse('10Gi'), 10n * 2n ** 30n);
  assert.equal(quantity.show?.(3n * 2n ** 29n), '1536Mi');
  assert.throws(() => quantity.parse('big'), { message: /^"big" is not a quantity/ });
  assert.deepEqual(list.parse('a, b,'), ['a', 'b']);
  assert.deepEqual(list.parse(''), []);
  assert.equal(list.show?.(['a', 'b']), '"a,b"');
});

test('an invalid value is answered with the allowed ones', () => {
  assert.throws(() => onOff.parse('perhaps'), { name: 'InvalidInput', message: 'use true or false' });
  assert.throws(() => oneOf(['ro', 'rw']).parse('x'), { name: 'InvalidInput', message: 'use one of ro, rw' });
});
