import assert from 'node:assert/strict';
import { test } from 'node:test';
import { exists } from './exists.ts';

test('what is there, what is not, and what cannot be looked at', async () => {
  assert.equal(await exists(import.meta.filename), true);
  assert.equal(await exists(`${import.meta.filename}.other`), false);
  await assert.rejects(exists(`${import.meta.filename}/below`), { code: 'ENOTDIR' });
});
