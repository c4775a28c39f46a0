import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { parseBlkid } from './probe.ts';

const corpus = join(import.meta.dirname, 'testdata/blkid');

test('no output of blkid is ever taken for an empty device', () => {
  const line = fc.oneof(
    fc.string(),
    fc.constantFrom('TYPE=', 'TYPE=ext4', 'PTTYPE=dos', 'UUID=1-2', 'UUID=', 'TYPE', '=', '==', 'TYPE=a=b', '\0', '\r'),
  );
  fc.assert(
    fc.property(fc.array(line), (lines) => {
      const probe = parseBlkid(lines.join('\n'));
      assert.notEqual(probe.kind, 'empty');
      if (probe.kind === 'found') assert.notEqual(probe.filesystem, '');
    }),
  );
  fc.assert(fc.property(fc.string({ unit: 'binary' }), (text) => assert.notEqual(parseBlkid(text).kind, 'empty')));
});

test('type and UUID are found in any order and among any other fields', () => {
  const fact = fc.tuple(fc.constantFrom('DEVNAME', 'LABEL', 'VERSION', 'USAGE', 'PART_ENTRY_UUID'), fc.base64String());
  const word = fc.stringMatching(/^[A-Za-z0-9_-]{1,36}$/);
  fc.assert(
    fc.property(word, word, fc.array(fact), fc.nat(10), (filesystem, uuid, facts, at) => {
      const lines = facts.map(([key, value]) => `${key}=${value}`);
      lines.splice(at % (lines.length + 1), 0, `TYPE=${filesystem}`, `UUID=${uuid}`);
      const label = facts.findLast(([key]) => key === 'LABEL')?.[1];
      const found = { kind: 'found', filesystem, uuid, ...(label !== undefined && { label }) };
      assert.deepEqual(parseBlkid(`${lines.join('\n')}\n`), found);
    }),
  );
});

test('recorded outputs of real and broken devices give the result in their file names', () => {
  const files = readdirSync(corpus);
  assert.ok(files.length >= 8);
  for (const file of files) {
    const probe = parseBlkid(readFileSync(join(corpus, file), 'latin1'));
    const said = probe.kind === 'found' ? `found-${probe.filesystem}` : probe.kind;
    assert.ok(file.startsWith(`${said}.`), `${file} was ${said}`);
  }
});
