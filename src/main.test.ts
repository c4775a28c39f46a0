import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { runCaptured } from './base/testing/run-captured.ts';
import { moorage as program } from './commands.ts';

interface Ended {
  readonly code: number | string;
  readonly stdout: string;
  readonly stderr: string;
}

function moorage(...args: string[]): Promise<Ended> {
  const command = [join(import.meta.dirname, 'main.ts'), ...args];
  return new Promise((resolve) => {
    execFile(process.execPath, command, { env: {} }, (error, stdout, stderr) => {
      resolve({ code: error?.code ?? 0, stdout, stderr });
    });
  });
}

test('help names every command', async () => {
  const { code, stdout } = await moorage('--help');
  assert.equal(code, 0);
  for (const [name, { alias }] of Object.entries(program.commands)) {
    assert.match(stdout, new RegExp(`^  ${alias ? `${name}, ${alias}` : name}( |$)`, 'm'));
  }
});

test('an invalid command line is reported in one line, with exit code 2', async () => {
  assert.deepEqual(await moorage('nod'), {
    code: 2,
    stdout: '',
    stderr: "moorage: unknown command 'nod'; did you mean node?\n",
  });
});

test('the help of a command shows each flag with its default and environment variable', async () => {
  const help = await runCaptured(program, ['node', '--help']);
  assert.match(
    help,
    /--csi-socket <path> +Unix socket to serve CSI on \(default\n +"\/run\/topolvm\/csi-topolvm.sock"\)/,
  );
  assert.match(help, /--nodename <text> .*\n? .*environment NODE_NAME/);
  assert.match(help, /--metrics-bind-address, --metrics-addr <text>\n.*\n +\(default ":8080"\)/);
});

test("TopoLVM's names work as a command and as the program's name", async () => {
  const help = await runCaptured(program, ['node', '--help']);
  assert.equal(await runCaptured(program, ['topolvm-node', '--help']), help);
  assert.equal(await runCaptured(program, ['--help'], { calledAs: 'topolvm-node' }), help);
});

test('--version prints the version', async () => assert.equal(await runCaptured(program, ['--version']), '1.2.3'));

test('a command reports a missing flag', async () => {
  await assert.rejects(runCaptured(program, ['node']), { message: '--nodename is required; pass it or set NODE_NAME' });
  await assert.rejects(runCaptured(program, ['controller']), { message: /pass --kubeconfig$/ });
});
