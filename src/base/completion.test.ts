import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { moorage } from '../commands.ts';
import { command } from './command.ts';
import { flag, text } from './flags.ts';
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

test('values can be looked up, with the flags that are already typed; a failure offers nothing', async () => {
  const suggest = async (typed: ReadonlyMap<string, string>, env: NodeJS.ProcessEnv) =>
    env['FAIL'] ? Promise.reject(new Error('no cluster')) : [`a-${typed.get('context')}`, 'b'];
  const flags = {
    context: flag({ name: 'context', short: 'c', type: text, default: '', description: 'Context' }),
    node: flag({ name: 'node', type: text, default: '', description: 'Node', suggest }),
  };
  const show = command({ summary: 'show', words: ['NAME'], flags, suggest, run: async () => undefined });
  const program = { name: 'program', summary: '', commands: { show } };
  const offered = (...words: string[]) => runCaptured(program, ['complete', '--', ...words]);
  assert.equal(await offered('show', '--context', 'x', ''), 'a-x\nb\n:4');
  assert.equal(await offered('show', '-c', 'x', '--node', 'a'), 'a-x\n:4');
  assert.equal(await offered('show', '--context=y', '--node=a'), '--node=a-y\n:4');
  assert.equal(await offered('show', 'name', ''), ':4');
  assert.equal(await runCaptured(program, ['complete', '--', 'show', ''], { env: { FAIL: 'yes' } }), ':4');
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
