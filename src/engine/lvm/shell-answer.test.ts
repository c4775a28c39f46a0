import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { AnswerReader, parseAnswer, UnreadableAnswer } from './shell-answer.ts';

/** The recorded answers of a shell of LVM 2.03.16 to seven commands. */
const recorded = readFileSync(new URL('testdata/shell-answers.txt', import.meta.url), 'utf8');
const maxChars = 1_000_000;

const expected = [
  { subcommand: 'lvcreate', ok: true, exitCode: 1, report: '', errors: '' },
  {
    subcommand: 'lvs',
    ok: true,
    exitCode: 1,
    report: JSON.stringify({
      report: [
        {
          lv: [
            { lv_name: 'doc', lv_size: '4.00m', lv_tags: '' },
            { lv_name: 'tp', lv_size: '2.00g', lv_tags: '' },
          ],
        },
      ],
    }),
    errors: '',
  },
  { subcommand: 'lvremove', ok: false, exitCode: 5, report: '', errors: 'Failed to find logical volume "vg/nope"' },
  {
    subcommand: 'lvcreate',
    ok: false,
    exitCode: 5,
    report: '',
    errors: 'Volume group "vg" has insufficient free space (1846 extents): 99999 required.',
  },
  { subcommand: 'nonsense', ok: false, exitCode: 2, report: '', errors: "No such command 'nonsense'.  Try 'help'." },
  { subcommand: 'lvs', ok: false, exitCode: 3, report: '', errors: 'Error during parsing of command line.' },
  {
    subcommand: 'lvs',
    ok: false,
    exitCode: 5,
    report: '{"report":[{"lv":[]}]}',
    errors: 'Volume group "nogroup" not found\nCannot process volume group nogroup',
  },
];

test('answers of a real shell are parsed', () => {
  assert.deepEqual(new AnswerReader(maxChars).read(recorded), expected);
});

test('answers are parsed however they arrive in pieces', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(recorded.length), { maxLength: 30 }), (cuts) => {
      const reader = new AnswerReader(maxChars);
      const places = [0, ...cuts.toSorted((a, b) => a - b), recorded.length];
      const answers = places.slice(1).flatMap((end, i) => reader.read(recorded.slice(places[i], end)));
      assert.deepEqual(answers, expected);
    }),
  );
});

test('an answer without an end is rejected at the maximum length', () => {
  const reader = new AnswerReader(100);
  reader.read('x'.repeat(100));
  assert.throws(() => reader.read('x'), UnreadableAnswer);
});

test('an invalid answer is rejected as a whole', () => {
  const [first = ''] = recorded.split(/(?<=\n {2}\}\n)/);
  parseAnswer(first);
  const row = {
    log_type: 'status',
    log_object_type: 'cmd',
    log_object_name: 'lvs',
    log_message: '',
    log_ret_code: '1',
  };
  for (const answer of [
    {},
    { log: [] },
    { log: [{ ...row, log_ret_code: 'x' }] },
    { log: [{ ...row, log_object_type: 'vg' }] },
  ]) {
    assert.throws(() => parseAnswer(JSON.stringify(answer)), UnreadableAnswer);
  }
  fc.assert(
    fc.property(fc.nat(first.trimEnd().length - 1), (length) => {
      assert.throws(() => parseAnswer(first.slice(0, length)), UnreadableAnswer);
    }),
  );
  const bytes = fc.record({ at: fc.nat(first.length - 1), byte: fc.string({ minLength: 1, maxLength: 3 }) });
  fc.assert(
    fc.property(fc.array(bytes, { maxLength: 5 }), (changes) => {
      let broken = first;
      for (const { at, byte } of changes) broken = broken.slice(0, at) + byte + broken.slice(at + 1);
      try {
        parseAnswer(broken);
      } catch (error) {
        assert.ok(error instanceof UnreadableAnswer, String(error));
      }
    }),
  );
});
