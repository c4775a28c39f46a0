import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { reasons } from '../src/explain/explanation.ts';

test('each reason of kubectl moorage why is produced by a test on a real control plane or cluster', () => {
  const files = globSync(['test/kube/why-*.test.ts', 'test/cluster/why/*.test.ts']);
  const text = files.map((file) => readFileSync(file, 'utf8')).join('\n');
  const missing = Object.keys(reasons).filter((code) => !text.includes(`'${code}'`));
  assert.deepEqual(missing, []);
});
