import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { reasons } from './explanation.ts';
import { examples } from './testing/examples.ts';

for (const { code, sentence, explain } of examples) {
  test(`${code}: ${sentence}`, () => {
    const found = explain();
    assert.equal(found?.sentence, sentence);
    assert.equal(found.code, code);
    if (found.severity === 'stuck') assert.ok(found.evidence.length > 0, 'there is no evidence');
  });
}

test('each reason has an example', () => {
  assert.deepEqual(
    examples.map(({ code }) => code),
    Object.keys(reasons),
  );
});

test('docs/why.md lists each reason with its sentence and the first thing to do', () => {
  const text = readFileSync(join(import.meta.dirname, '..', '..', 'docs', 'why.md'), 'utf8');
  const rows = text.split('\n').filter((line) => /^\| `[A-Z]\w+` \|/.test(line));
  const expected = examples.map(({ code, explain }) => {
    const { sentence = '', remedy = [] } = explain() ?? {};
    return `| \`${code}\` | ${sentence} | ${remedy[0] ? `\`${remedy[0].replaceAll('|', '\\|')}\`` : ''} |`;
  });
  assert.deepEqual(rows, expected);
});
