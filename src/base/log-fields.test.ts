import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { InvalidInput } from './errors.ts';
import { createLog } from './log.ts';

/** The fields of an event, as a reader of the log finds them. */
function read(fields: Record<string, unknown>) {
  const lines: string[] = [];
  createLog('test', 'info', (line) => lines.push(line)).info(fields, 'an event');
  assert.match(lines.join(''), /^.+\n$/);
  const { level: _, time: __, process: ___, msg: ____, ...rest } = JSON.parse(lines.join(''));
  return rest;
}

test('any fields give JSON on one line, and all JSON values are kept', () => {
  const name = fc.string().map((text) => `x${text}`);
  const anything = fc.anything({
    withBigInt: true,
    withDate: true,
    withMap: true,
    withSet: true,
    withTypedArray: true,
  });
  fc.assert(
    fc.property(fc.dictionary(name, anything), (fields) => {
      read(fields);
    }),
  );
  fc.assert(
    fc.property(fc.dictionary(name, fc.jsonValue()), (fields) => {
      assert.deepEqual(read(fields), JSON.parse(JSON.stringify(fields)));
    }),
  );
});

test('a field that cannot be serialized does not affect the others', () => {
  const circular: Record<string, unknown> = {};
  circular['itself'] = circular;
  const fields = {
    circular,
    get broken() {
      throw new Error('not now');
    },
    nothing: undefined,
    bytes: 2n ** 64n,
    text: 'there',
  };
  const cannot = 'cannot be written as JSON';
  assert.deepEqual(read(fields), {
    circular: cannot,
    broken: cannot,
    bytes: '18446744073709551616',
    text: 'there',
  });
});

test('a huge value is truncated', () => {
  const { long, text } = read({ long: ['x'.repeat(5_000_000)], text: 'there' });
  assert.match(long, /^\["x{999998}\.\.\. and more$/);
  assert.equal(text, 'there');
});

test('a MoorageError is logged with its code, any other error with its stack and causes', () => {
  const foreseen = new InvalidInput('size is negative; give a positive one');
  const lost = Object.assign(new Error('connection lost', { cause: foreseen }), { code: 'ECONNRESET', socket: {} });
  const { err, nested } = read({ err: new TypeError('a bug', { cause: lost }), nested: [{ foreseen }] });
  assert.deepEqual(nested, [{ foreseen: { type: 'InvalidInput', code: 'InvalidArgument' } }]);
  assert.deepEqual([err.type, err.message], ['TypeError', 'a bug']);
  assert.match(err.stack, /^TypeError: a bug\n +at /);
  const { stack, cause, ...facts } = err.cause;
  assert.deepEqual(facts, { type: 'Error', message: 'connection lost', code: 'ECONNRESET' });
  assert.match(stack, /^Error: connection lost\n +at /);
  assert.deepEqual([cause.type, cause.code, cause.message], ['InvalidInput', 'InvalidArgument', foreseen.message]);
});

test('all errors of an AggregateError are logged, and an error that is its own cause ends', () => {
  const refused = Object.assign(new Error('refused'), { code: 'ECONNREFUSED' });
  const { aggregateErrors } = read({ err: new AggregateError([refused, refused], 'no way') }).err;
  assert.deepEqual(
    aggregateErrors.map(({ code }: { code: string }) => code),
    ['ECONNREFUSED', 'ECONNREFUSED'],
  );
  refused.cause = refused;
  assert.equal(read({ err: refused }).err.cause, 'as above');
});
