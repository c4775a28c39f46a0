import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { TestContext } from 'node:test';
import { stringify } from 'yaml';
import { spawn } from '../../worlds/host/processes.ts';
import { scratchFilesystem } from '../native/scratch.ts';

const moorage = join(import.meta.dirname, '..', '..', 'bin', 'moorage');

/** Runs a command with `$0` as /var/lib, and an empty /run. */
const withOwnVarLib = [
  'unshare',
  '--mount',
  'sh',
  '-ec',
  'mount --bind "$0" /var/lib; mount -t tmpfs none /run; exec "$@"',
];

/** A real `moorage standalone` for one test. It ends before its disks are removed, so they are created later. */
export class StandaloneProcess {
  readonly directory: string;
  readonly socket: string;
  #command: readonly string[] = [];
  #child: ChildProcess | undefined;
  readonly #env: NodeJS.ProcessEnv;
  readonly #log: string[] = [];

  private constructor(directory: string, env: NodeJS.ProcessEnv) {
    this.directory = directory;
    this.#env = env;
    this.socket = join(directory, 'csi.sock');
  }

  /** Resolves when it serves the classes that `prepare` returns. */
  static async start(
    t: TestContext,
    prepare: () => Promise<readonly object[]>,
    env: NodeJS.ProcessEnv = {},
  ): Promise<StandaloneProcess> {
    const standalone = await StandaloneProcess.#create(t, env);
    const configFile = join(standalone.directory, 'lvmd.yaml');
    const config = {
      'socket-name': join(standalone.directory, 'lvmd.sock'),
      'lvm-command-prefix': ['lvm'],
      'device-classes': await prepare(),
    };
    await writeFile(configFile, stringify(config));
    standalone.#command = [...standalone.#program, `--config=${configFile}`, `--state-dir=${standalone.directory}`];
    await standalone.restart();
    return standalone;
  }

  /** On a directory of files; xfs and btrfs share blocks between copies, ext4 does not. */
  static async onFiles(t: TestContext, filesystem = 'xfs', env: NodeJS.ProcessEnv = {}): Promise<StandaloneProcess> {
    const prepare = async () => {
      const path = await scratchFilesystem(t, filesystem, 2048);
      return [{ name: 'files', type: 'file', path, default: true, 'spare-gb': 0 }];
    };
    return StandaloneProcess.start(t, prepare, env);
  }

  /** Without a configuration, and with a directory of the test as /var/lib. */
  static async byDefault(t: TestContext, prepare: () => Promise<string>): Promise<StandaloneProcess> {
    const standalone = await StandaloneProcess.#create(t);
    standalone.#command = [...withOwnVarLib, await prepare(), ...standalone.#program];
    await standalone.restart();
    return standalone;
  }

  static async #create(t: TestContext, env: NodeJS.ProcessEnv = {}): Promise<StandaloneProcess> {
    const standalone = new StandaloneProcess(await mkdtemp(join(tmpdir(), 'moorage-standalone-')), env);
    t.after(async () => {
      await standalone.end('SIGTERM');
      await rm(standalone.directory, { recursive: true });
    });
    return standalone;
  }

  get #program(): readonly string[] {
    return [moorage, 'standalone', `--csi-socket=${this.socket}`, '--nodename=here'];
  }

  /** Like a crash: only the state on the disks is left. */
  async restart(): Promise<void> {
    await this.end('SIGKILL');
    const env = { ...this.#env, NODE_COMPILE_CACHE: join(tmpdir(), 'moorage-compiled') };
    const [command = '', ...args] = this.#command;
    const child = spawn(command, args, { env, stdio: ['ignore', 'ignore', 'pipe'] });
    this.#child = child;
    const serving = Promise.withResolvers<void>();
    createInterface({ input: child.stderr }).on('line', (line) => {
      this.#log.push(line);
      if (line.includes(this.socket) && line.includes('"msg":"serving"')) serving.resolve();
    });
    child.once('exit', () => serving.reject(new Error(`standalone ended:\n${this.#log.slice(-40).join('\n')}`)));
    await serving.promise;
  }

  get pid(): number {
    return this.#child?.pid ?? 0;
  }

  async end(signal: NodeJS.Signals): Promise<void> {
    const child = this.#child;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const exit = once(child, 'exit');
    child.kill(signal);
    await exit;
  }
}
