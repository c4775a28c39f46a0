import assert from 'node:assert/strict';
import { test } from 'node:test';
import { exists } from './exists.ts';

test('a path exists or not, and a path that cannot be checked is an error', async () => {
  assert.equal(await exists(import.meta.filename), true);
  assert.equal(await exists(`${import.meta.filename}.other`), false);
  await assert.rejects(exists(`${import.meta.filename}/below`), { code: 'ENOTDIR' });
});
