import assert from 'node:assert/strict';
import { test } from 'node:test';
import { InvalidInput } from '../base/errors.ts';
import { parseAddress } from './address.ts';

test('addresses have the format of Go', () => {
  assert.deepEqual(parseAddress(':8080'), { host: undefined, port: 8080 });
  assert.deepEqual(parseAddress('127.0.0.1:80'), { host: '127.0.0.1', port: 80 });
  assert.deepEqual(parseAddress('[::1]:80'), { host: '::1', port: 80 });
  for (const wrong of ['8080', ':', ':99999', '::1:80', 'a:b']) {
    assert.throws(() => parseAddress(wrong), InvalidInput, wrong);
  }
});
