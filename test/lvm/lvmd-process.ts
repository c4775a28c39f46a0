import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { TestContext } from 'node:test';
import { stringify } from 'yaml';
import { runProgram } from '../../src/base/command.ts';
import { messageOf } from '../../src/base/errors.ts';
import { exitCodeOf } from '../../src/cli/exit-code.ts';
import { moorage as program } from '../../src/commands.ts';
import { undoAfter } from '../../worlds/lvm/undo.ts';

/** Compiling is slow in a machine, so processes share a compile cache. */
const env = { ...process.env, NODE_COMPILE_CACHE: join(tmpdir(), 'moorage-compiled') };
const main = join(import.meta.dirname, '..', '..', 'src', 'main.ts');

export interface Ended {
  readonly code: number | string;
  readonly stdout: string;
  readonly stderr: string;
}

/** A real `moorage lvmd` with its own configuration, for one test. */
export class LvmdProcess {
  readonly directory: string;
  readonly configFile: string;
  readonly socketPath: string;
  readonly #child: ChildProcess;
  readonly #log: string[] = [];

  private constructor(directory: string) {
    this.directory = directory;
    this.configFile = join(directory, 'lvmd.yaml');
    this.socketPath = join(directory, 'lvmd.sock');
    const command = [
      main,
      'lvmd',
      '--config',
      this.configFile,
      '--state-dir',
      directory,
      '--metrics-addr',
      '127.0.0.1:0',
    ];
    this.#child = spawn(process.execPath, command, { env, stdio: ['ignore', 'ignore', 'pipe'] });
  }

  /** Resolves when it serves. */
  static async start(t: TestContext, deviceClasses: readonly object[], lvm = ['lvm']): Promise<LvmdProcess> {
    const directory = await mkdtemp(join(tmpdir(), 'moorage-lvmd-'));
    const config = {
      'socket-name': join(directory, 'lvmd.sock'),
      'lvm-command-prefix': lvm,
      'device-classes': deviceClasses,
    };
    await writeFile(join(directory, 'lvmd.yaml'), stringify(config));
    const lvmd = new LvmdProcess(directory);
    undoAfter(t, async () => {
      await lvmd.stop();
      await rm(directory, { recursive: true });
    });
    await lvmd.#serves();
    return lvmd;
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const exit = once(this.#child, 'exit');
    this.#child.kill('SIGTERM');
    await exit;
  }

  /** Runs a CLI command with this lvmd's socket; in this process, because starting one is slow in a machine. */
  async moorage(...words: string[]): Promise<Ended> {
    const [stdout, stderr]: [string[], string[]] = [[], []];
    try {
      await runProgram(program, 'moorage', [...words, '--socket', this.socketPath], {
        env: process.env,
        version: '',
        signal: new AbortController().signal,
        print: (text) => stdout.push(`${text}\n`),
        screen: { isTerminal: false, write: (text) => void stderr.push(text) },
      });
      return { code: 0, stdout: stdout.join(''), stderr: stderr.join('') };
    } catch (error) {
      return { code: exitCodeOf(error), stdout: stdout.join(''), stderr: messageOf(error) };
    }
  }

  async #serves(): Promise<void> {
    const lines = createInterface({ input: this.#child.stderr ?? process.stdin });
    const serving = Promise.withResolvers<void>();
    lines.on('line', (line) => {
      this.#log.push(line);
      if (line.includes('"msg":"serving"')) serving.resolve();
    });
    this.#child.once('exit', () => serving.reject(new Error(`lvmd did not start:\n${this.#log.join('\n')}`)));
    await serving.promise;
  }
}

/** Runs a separate process; returns exit code and both outputs. */
export function moorage(...words: string[]): Promise<Ended> {
  return new Promise((resolve) => {
    execFile(process.execPath, [main, ...words], { env }, (error, stdout, stderr) => {
      resolve({ code: error?.code ?? 0, stdout, stderr });
    });
  });
}
