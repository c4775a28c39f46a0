import assert from 'node:assert/strict';
import { test } from 'node:test';
import { withResults } from './fault-table.ts';

const page = '# Faults\n\n<!-- begin: npm run test:moves -->\n<!-- end -->\n\nMore.\n';

test('cells of cases that ran are replaced, all others stay', () => {
  const copying = { phase: 'Copying', victim: 'controller', volume: 'thin' } as const;
  const pending = { phase: 'Pending', victim: 'target node', volume: 'file' } as const;
  const first = withResults(page, [
    [copying, { volume: 'thin', red: 'it hangs' }],
    [pending, { volume: 'file', end: 'Done', pauseSeconds: 5 }],
  ]);
  assert.match(first, /^\| Copying \|  \|  \| \*\*red\*\*, thin \|  \|  \|  \|$/m);
  assert.match(first, /^\| Pending \|  \|  \|  \|  \|  \| Done, file, 5 s \|$/m);
  const second = withResults(first, [[copying, { volume: 'thin', end: 'Done', pauseSeconds: 12 }]]);
  assert.equal(second, first.replace('**red**, thin', 'Done, thin, 12 s'));
  assert.match(second, /^# Faults\n\n<!-- begin[^]*<!-- end -->\n\nMore\.\n$/);
});

test('a page without markers is refused', () => {
  assert.throws(() => withResults('# Faults\n', []), /needs the lines/);
});
