import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { plainManifests } from '../../scripts/manifests/plain-manifests.ts';

const deploy = join(import.meta.dirname, '..', '..', 'deploy');

for (const [file, text] of await plainManifests()) {
  test(`deploy/${file} is what the chart renders; if not: npm run manifests`, async () => {
    assert.equal(await readFile(join(deploy, file), 'utf8'), text);
  });
}
