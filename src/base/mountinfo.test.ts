import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { parseMountInfo } from './mountinfo.ts';

test('a line of mountinfo is parsed, with any number of optional fields', () => {
  const lines = [
    '36 35 98:0 /sub /mnt/a rw,noatime shared:1 master:2 - ext4 /dev/sda rw,errors=continue',
    '37 36 0:5 / /dev rw - devtmpfs devtmpfs rw',
    String.raw`38 36 0:40 / /with\040space\134 ro shared:7 - tmpfs  rw`,
    '',
  ];
  assert.deepEqual(parseMountInfo(lines.join('\n')), [
    {
      target: '/mnt/a',
      root: '/sub',
      device: '98:0',
      filesystem: 'ext4',
      source: '/dev/sda',
      options: ['rw', 'noatime'],
    },
    { target: '/dev', root: '/', device: '0:5', filesystem: 'devtmpfs', source: 'devtmpfs', options: ['rw'] },
    { target: '/with space\\', root: '/', device: '0:40', filesystem: 'tmpfs', source: '', options: ['ro'] },
  ]);
});

test('an invalid line of mountinfo is an error', () => {
  assert.throws(() => parseMountInfo('36 35 98:0 / /mnt rw ext4 /dev/sda rw'), /not a line of mountinfo/);
});

test('any path is unescaped exactly', () => {
  const path = fc
    .string({ unit: fc.constantFrom('a', '-', ' ', '\t', '\n', '\\', '#', 'é', '0', '4'), maxLength: 12 })
    .map((s) => `/${s}`);
  // The kernel's way to escape them.
  const escape = (text: string) =>
    text.replace(/[ \t\n\\#]/g, (c) => `\\${c.charCodeAt(0).toString(8).padStart(3, '0')}`);
  fc.assert(
    fc.property(path, path, path, fc.nat(3), (root, target, source, optional) => {
      const fields = ['36', '35', '98:0', escape(root), escape(target), 'rw'];
      const line = [...fields, ...Array<string>(optional).fill('shared:1'), '-', 'ext4', escape(source), 'rw'].join(
        ' ',
      );
      const [mount] = parseMountInfo(`${line}\n`);
      assert.deepEqual([mount?.root, mount?.target, mount?.source], [root, target, source]);
    }),
  );
});
