import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { codeOfNumber, decodeMessage, encodeMessage, numberOf } from './status.ts';

test("codes have gRPC's numbers", () => {
  assert.equal(numberOf('ResourceExhausted'), 8);
  assert.equal(codeOfNumber(8), 'ResourceExhausted');
});

test('a number that we never send is an internal error', () => {
  assert.equal(codeOfNumber(2), 'Internal');
  assert.equal(codeOfNumber(99), 'Internal');
});

test('any sentence survives a header, which takes printable ASCII only', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (sentence) => {
      assert.match(encodeMessage(sentence), /^[ -~]*$/);
      assert.equal(decodeMessage(encodeMessage(sentence)), sentence.toWellFormed());
    }),
  );
});

test('a sentence that was not encoded is told as it came', () => {
  assert.equal(decodeMessage('100% full'), '100% full');
});
