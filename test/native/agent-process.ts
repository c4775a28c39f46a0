import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface, type Interface } from 'node:readline';
import type { TestContext } from 'node:test';
import { stringify } from 'yaml';
import { type LogLine, logLines } from '../../worlds/host/log-line.ts';
import { spawn } from '../../worlds/host/processes.ts';
import { undoAfter } from '../../worlds/lvm/undo.ts';
import { scratchDirectory } from './scratch.ts';

const main = join(import.meta.dirname, '..', '..', 'src', 'main.ts');

/** The paths that the agents of one machine share. There is no API server, but agents serve without it. */
export class AgentDirectories {
  readonly directory: string;
  readonly csiSocket: string;

  private constructor(directory: string) {
    this.directory = directory;
    this.csiSocket = join(directory, 'csi.sock');
  }

  static async create(t: TestContext): Promise<AgentDirectories> {
    const place = new AgentDirectories(await scratchDirectory(t));
    for (const name of ['files', 'kubelet']) await mkdir(join(place.directory, name));
    const server = { name: 'none', cluster: { server: 'https://127.0.0.1:1' } };
    const context = { name: 'none', context: { cluster: 'none', user: 'none' } };
    await writeFile(
      join(place.directory, 'kubeconfig'),
      stringify({
        'current-context': 'none',
        clusters: [server],
        contexts: [context],
        users: [{ name: 'none', user: {} }],
      }),
    );
    return place;
  }

  /** Resolves as soon as its process exists. */
  async start(
    t: TestContext,
    deviceClasses?: readonly object[],
    metricsAddress = '127.0.0.1:0',
    flags: readonly string[] = [],
  ): Promise<AgentProcess> {
    const files = [{ name: 'files', type: 'file', path: join(this.directory, 'files'), default: true, 'spare-gb': 0 }];
    const config = join(this.directory, 'lvmd.yaml');
    await writeFile(config, stringify({ 'device-classes': deviceClasses ?? files }));
    const agent = new AgentProcess([
      ...['node', '--nodename=here', `--config=${config}`, `--kubeconfig=${join(this.directory, 'kubeconfig')}`],
      ...[`--csi-socket=${this.csiSocket}`, `--lvmd-socket=${join(this.directory, 'lvmd.sock')}`],
      ...[`--kubelet-dir=${join(this.directory, 'kubelet')}`, `--metrics-addr=${metricsAddress}`],
      ...[`--state-dir=${this.directory}`, ...flags],
    ]);
    undoAfter(t, () => agent.end('SIGKILL')); // before its directory is removed
    return agent;
  }
}

/** A real `moorage node`. */
export class AgentProcess {
  readonly #child: ChildProcess;
  readonly #lines: Interface;
  readonly #ended: Promise<unknown>;
  readonly #said: string[] = [];

  constructor(args: readonly string[]) {
    const env = { NODE_COMPILE_CACHE: join(tmpdir(), 'moorage-compiled') };
    this.#child = spawn(process.execPath, [main, ...args], { env, stdio: ['ignore', 'ignore', 'pipe'] });
    this.#lines = createInterface({ input: this.#child.stderr ?? process.stdin });
    this.#lines.on('line', (line) => this.#said.push(line));
    this.#ended = once(this.#child, 'close'); // all of its output has been read too
  }

  get #hasEnded(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  /** Its log so far, for error messages. */
  get words(): string {
    return this.#said.join('\n');
  }

  get log(): readonly LogLine[] {
    return logLines(this.words);
  }

  /** The time of this log message; waits for it if necessary. */
  async said(message: RegExp): Promise<number> {
    for (;;) {
      const line = this.log.find(({ msg, socket = '' }) => message.test(`${msg} ${socket}`));
      if (line) return Date.parse(line.time);
      if (this.#hasEnded) throw new Error(`the agent ended without logging ${message}:\n${this.words}`);
      await Promise.race([once(this.#lines, 'line'), this.#ended]);
    }
  }

  /** Resolves with its exit code when it has ended. */
  async end(signal?: NodeJS.Signals): Promise<number | null> {
    if (signal) this.#child.kill(signal);
    await this.#ended;
    return this.#child.exitCode;
  }
}
