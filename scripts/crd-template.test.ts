import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { crdTemplate, crdTemplatePath } from './manifests/crd-template.ts';

test("the chart's CRDs are those of src/api/crd; if not: npm run manifests", async () => {
  assert.equal(await readFile(crdTemplatePath, 'utf8'), crdTemplate());
});
