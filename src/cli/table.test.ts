import assert from 'node:assert/strict';
import { test } from 'node:test';
import { table } from './table.ts';

test('columns are aligned, and empty ones are omitted', () => {
  const rows = [
    ['data', '10 GiB', ''],
    ['longer-name', '5 MiB', ''],
  ];
  assert.equal(
    table(['NAME', 'SIZE', 'ORIGIN'], rows),
    ['NAME         SIZE', 'data         10 GiB', 'longer-name  5 MiB'].join('\n'),
  );
});
