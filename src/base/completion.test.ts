import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { moorage } from '../commands.ts';
import { runCaptured } from './testing/run-captured.ts';

/** The words that a shell would offer, and whether it would offer files. */
async function offers(...words: string[]): Promise<{ words: string[]; files: boolean }> {
  const lines = (await runCaptured(moorage, ['complete', '--', ...words])).split('\n');
  const directive = lines.pop();
  assert.match(directive ?? '', /^:[04]$/);
  return { words: lines.map((line) => line.replace(/\t.*/, '')), files: directive === ':0' };
}

test('commands, subcommands, flags and values are completed', async () => {
  const expected: [string[], string[]][] = [
    [['sta'], ['standalone']],
    [
      ['volume', ''],
      ['ls', 'create', 'grow', 'snapshot', 'rm'],
    ],
    [['topolvm-node', '--inline-d'], ['--inline-device-classes']],
    [['node', '--log-level', 'd'], ['debug']],
    [['node', '--log-level=d'], ['--log-level=debug']],
    [
      ['volume', 'ls', '-o', ''],
      ['table', 'json'],
    ],
    [['volume', 'ls', '--socket', 'ls', '--he'], ['--help']],
    [
      ['completion', ''],
      ['bash', 'zsh', 'fish'],
    ],
    [['completion', 'bash', ''], []],
    [['volume', 'create', ''], []],
    [['no-such-command', '--'], ['--help']],
  ];
  for (const [words, offered] of expected) assert.deepEqual(await offers(...words), { words: offered, files: false });
  assert.equal((await offers('')).words.length, Object.keys(moorage.commands).length + 1);
});

test('a path is completed with files', async () => {
  assert.deepEqual(await offers('lvmd', '--config', ''), { words: [], files: true });
});

test('a candidate has its description', async () => {
  assert.match(await runCaptured(moorage, ['complete', '--', 'pool', 'l']), /^ls\tlist pools.*\n:4$/);
});

const main = join(import.meta.dirname, '..', 'main.ts');

/** What bash has for a command line whose cursor is at its end. */
function inBash(...words: string[]): string[] {
  const script = `
    moorage() { '${process.execPath}' '${main}' "$@"; }
    source <(moorage completion bash)
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    $(complete -p moorage | sed 's/.*-F \\([^ ]*\\).*/\\1/')
    printf '%s\\n' "\${COMPREPLY[@]}"`;
  const answer = execFileSync('bash', ['-c', script, 'bash', ...words], { encoding: 'utf8' });
  return answer.trimEnd().split('\n');
}

test('the script works in bash, which takes --flag=value for three words', () => {
  assert.deepEqual(inBash('moorage', 'volume', 'sn'), ['snapshot']);
  assert.deepEqual(inBash('moorage', 'node', '--log-level', '=', 'de'), ['debug']);
  assert.deepEqual(inBash('moorage', 'volume', 'ls', '-o', ''), ['table', 'json']);
  assert.deepEqual(inBash('moorage', 'volume', 'ls', '--output', '='), ['table', 'json']);
});

test('an unknown shell is refused', async () => {
  const message = 'invalid shell "ksh": use one of bash, zsh, fish';
  await assert.rejects(runCaptured(moorage, ['completion', 'ksh']), { name: 'InvalidInput', message });
});
