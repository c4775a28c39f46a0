import assert from 'node:assert/strict';
import { test } from 'node:test';
import { codeOfNumber, numberOf } from './status.ts';

test("codes have gRPC's numbers", () => {
  assert.equal(numberOf('ResourceExhausted'), 8);
  assert.equal(codeOfNumber(8), 'ResourceExhausted');
});

test('an unknown number is an internal error', () => {
  assert.equal(codeOfNumber(2), 'Internal');
  assert.equal(codeOfNumber(99), 'Internal');
});
