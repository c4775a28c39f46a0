import assert from 'node:assert/strict';
import { test } from 'node:test';
import { age, bar, byName, cut, forPrograms, paint, table, wrapped } from './terminal.ts';

const plain = { columns: undefined, colours: false };

test('colours are used only on a terminal that wants them, and do not count as width', () => {
  const columns = [
    { title: 'A', cell: (row: string) => ({ text: row, colour: 'red' as const }) },
    { title: 'B', cell: () => 'x' },
  ];
  assert.equal(table(columns, ['one', 'three'], plain), 'A      B\none    x\nthree  x');
  const coloured = table(columns, ['one', 'three'], { columns: 80, colours: true });
  assert.ok(coloured.includes('\u001B[31mone\u001B[0m    x\n'));
  assert.equal(paint({ text: '', colour: 'red' }, { columns: 80, colours: true }), '');
});

test('only columns that may be cut off give way, the widest first', () => {
  const columns = [
    { title: 'NAME', cell: (row: readonly string[]) => row[0] ?? '', atLeast: 6 },
    { title: 'OTHER', cell: (row: readonly string[]) => row[1] ?? '', atLeast: 6 },
    { title: 'FIX', cell: (row: readonly string[]) => row[2] ?? '' },
  ];
  const rows = [['a'.repeat(20), 'b'.repeat(10), 'fixed']];
  const [, line = ''] = table(columns, rows, { columns: 30, colours: false }).split('\n');
  assert.equal(line, `${'a'.repeat(7)}…${'a'.repeat(3)}  ${'b'.repeat(10)}  fixed`);
  const [, narrow = ''] = table(columns, rows, { columns: 5, colours: false }).split('\n');
  assert.equal(narrow, 'aaaa…a  bbbb…b  fixed');
});

test('optional columns without room are omitted, the last one first; titles are not cut off', () => {
  const columns = [
    { title: 'NAMESPACE', cell: () => 'n'.repeat(20), atLeast: 4 },
    { title: 'A', cell: () => 'first', isOptional: true },
    { title: 'B', cell: () => 'second', isOptional: true },
    { title: 'FIX', cell: () => 'fixed' },
  ];
  const header = (width: number) =>
    table(columns, [''], { columns: width, colours: false }).split('\n')[0]?.split(/ +/).join(' ');
  assert.equal(header(31), 'NAMESPACE A B FIX');
  assert.equal(header(30), 'NAMESPACE A FIX');
  assert.equal(header(22), 'NAMESPACE FIX');
  assert.equal(header(5), 'NAMESPACE FIX');
});

test('a name that is cut off keeps its end, a sentence its beginning', () => {
  assert.equal(cut('no space is left', 10, true), 'no space …');
  assert.equal(cut('data-postgres-17', 10), 'data-p…-17');
  assert.equal(cut('short', 10), 'short');
});

test('an age has one unit, and a bar shows a share', () => {
  const now = Date.parse('2026-01-10T00:00:00Z');
  const ago = (seconds: number) => age(new Date(now - seconds * 1000).toISOString(), now);
  assert.deepEqual([ago(-5), ago(90), ago(600), ago(10_000), ago(864_000)], ['0s', '90s', '10m', '2h', '10d']);
  assert.equal(age('', now), '');
  assert.deepEqual([bar(0, 4), bar(0.5, 4), bar(2, 4)], ['░░░░', '██░░', '████']);
});

test('programs get bytes as numbers, in JSON or YAML', () => {
  assert.equal(forPrograms({ sizeBytes: 5n }, 'json'), '{\n  "sizeBytes": 5\n}');
  assert.equal(forPrograms({ sizeBytes: 5n, names: ['a'] }, 'yaml'), 'sizeBytes: 5\nnames:\n  - a');
  assert.equal(forPrograms({}, 'table'), undefined);
});

test('names with numbers are in the order of people', () => {
  assert.deepEqual(['w-10', 'w-2', 'v-3'].sort(byName), ['v-3', 'w-2', 'w-10']);
});

test('a sentence is wrapped into the terminal, and not in a file', () => {
  assert.equal(wrapped('one two three', '  ', { columns: 9, colours: false }), '  one two\n  three');
  assert.equal(wrapped('one two three', '  ', plain), '  one two three');
});
