import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { plainManifests } from '../../scripts/manifests/plain-manifests.ts';
import { valuesReference } from '../../scripts/manifests/values-reference.ts';

const home = join(import.meta.dirname, '..', '..');

for (const [file, text] of await plainManifests()) {
  test(`deploy/${file} is what the chart renders; if not: npm run manifests`, async () => {
    assert.equal(await readFile(join(home, 'deploy', file), 'utf8'), text);
  });
}

test('docs/values.md is what the schema says; if not: npm run manifests', async () => {
  assert.equal(await readFile(join(home, 'docs', 'values.md'), 'utf8'), await valuesReference());
});
