import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { timeoutHeader, timeoutOf } from './timeout.ts';

test('every unit is understood', () => {
  const inMs = ['2H', '3M', '4S', '5m', '6000u', '7000000n'].map(timeoutOf);
  assert.deepEqual(inMs, [7_200_000, 180_000, 4000, 5, 6, 7]);
  assert.equal(timeoutOf(undefined), undefined);
});

test('what we send is understood, and never shorter than meant', () => {
  fc.assert(
    fc.property(fc.double({ min: 0, max: 1e10, noNaN: true }), (timeoutMs) => {
      const heardMs = timeoutOf(timeoutHeader(timeoutMs)) ?? 0;
      assert.ok(heardMs >= timeoutMs && heardMs <= timeoutMs + 1000);
    }),
  );
});

test('anything else is refused', () => {
  for (const header of ['', '5', 'm', '123456789m', '5x', '-5m']) {
    assert.throws(() => timeoutOf(header), { code: 'InvalidArgument' }, header);
  }
});
