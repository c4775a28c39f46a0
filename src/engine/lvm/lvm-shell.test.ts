import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { CommandFailed } from '../../base/exec.ts';
import { LvmShell, LvmShellDied } from './lvm-shell.ts';

/** A shell that answers by a script: `$line` is the command, and `answer NAME CODE` prints its result. */
function shellThat(t: TestContext, script: string): LvmShell {
  const answer = `answer() { printf '  {\\n      "log": [ {"log_type":"error", "log_object_type":"cmd", "log_object_name":"%s", "log_message":"m", "log_ret_code":"%s"} ]\\n  }\\n' "$1" "$2" >&3; }`;
  const shell = new LvmShell({
    command: ['sh', '-c', `${answer}; while read -r line; do ${script}; done`],
    env: process.env,
    systemDir: '/nowhere',
  });
  t.after(() => shell.close());
  return shell;
}

const soon = 10_000;

test('a command gets its own answer', async (t) => {
  const shell = shellThat(t, 'set -- $line; [ "$2" = bad ] && answer "$1" 5 || answer "$1" 1');
  assert.equal(await shell.run(['lvs'], soon), '');
  await assert.rejects(shell.run(['lvcreate', 'bad'], soon), (error: unknown) => {
    assert.ok(error instanceof CommandFailed);
    assert.deepEqual([error.exitCode, error.stderr], [5, 'm']);
    return true;
  });
  assert.equal(await shell.run(['lvs'], soon), '');
  assert.ok(shell.alive);
});

test('a command that hangs is killed at its timeout, with its children', async (t) => {
  const shell = shellThat(t, 'sleep 1000');
  await assert.rejects(shell.run(['lvs'], 50), { name: 'CommandTimedOut', code: 'DeadlineExceeded' });
  assert.ok(!shell.alive);
  await assert.rejects(shell.run(['lvs'], soon), LvmShellDied);
});

for (const [what, script] of [
  ['exits', 'exit 0'],
  ['prints nonsense', 'printf "{nonsense\\n  }\\n" >&3; sleep 1000'],
  ['answers another command', 'answer vgs 1; sleep 1000'],
  ['closes its input', 'exec 0<&-; exit 1'],
] as const) {
  test(`a shell that ${what} is not used again`, async (t) => {
    const shell = shellThat(t, script);
    await assert.rejects(shell.run(['lvs'], soon), { name: 'LvmShellDied', code: 'Unavailable' });
    assert.ok(!shell.alive);
    await assert.rejects(shell.run(['lvs'], soon), LvmShellDied);
  });
}

test('an unexpected answer ends the shell', async (t) => {
  const shell = shellThat(t, 'answer lvs 1; answer lvs 1; sleep 1000');
  await shell.run(['lvs'], soon);
  await assert.rejects(shell.run(['vgs'], soon), LvmShellDied);
});

test('a missing program is a failed shell', async (t) => {
  const shell = new LvmShell({ command: ['/no/such/lvm'], env: {}, systemDir: '/nowhere' });
  t.after(() => shell.close());
  await assert.rejects(shell.run(['version'], soon), LvmShellDied);
});

test('only words without special characters reach the shell', () => {
  assert.ok(
    LvmShell.understands(['lvcreate', '--addtag', 'moorage.dev/claim=ns/a#1:2&3!+_^%@,', '100%ORIGIN', '-l', '5']),
  );
  for (const word of ['', '#a', 'a b', 'a"b', "a'b", 'a\nb', 'a\\b', 'a\tb', 'a;b', '$x', '`x`', 'ä', '\u0000']) {
    assert.ok(!LvmShell.understands(['lvs', word]), JSON.stringify(word));
  }
});

test('a command with too many words does not reach the shell', () => {
  const words = (count: number) => Array.from({ length: count }, () => 'word');
  assert.ok(LvmShell.understands(words(60)));
  assert.ok(!LvmShell.understands(words(61)));
});
