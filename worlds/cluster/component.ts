import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Namespaces, onlyChild } from './namespaces.ts';

const restartMs = 1000;

/** One program of the cluster, in its namespaces. Tests can start, stop, pause and kill it. */
export class Component {
  readonly name: string;
  readonly logFile: string;
  readonly #namespaces: Namespaces;
  readonly #argv: readonly string[];
  readonly #env: Readonly<Record<string, string>>;
  #process: ChildProcess | undefined;
  #isKept = false;

  constructor(
    namespaces: Namespaces,
    dir: string,
    name: string,
    argv: readonly string[],
    env: Readonly<Record<string, string>> = {},
  ) {
    this.#namespaces = namespaces;
    this.name = name;
    this.logFile = join(dir, `${name}.log`);
    this.#argv = argv;
    this.#env = env;
  }

  start(): void {
    this.#process = this.#namespaces.spawn(this.#argv, this.logFile, this.#env);
  }

  /** Starts it, also again if it ends by itself, as a kubelet does; until it is killed or released. */
  keepRunning(): void {
    this.#isKept = true;
    this.start();
    const started = this.#process;
    const restart = () => {
      if (this.#isKept && this.#process === started) this.keepRunning(); // unless it was killed and started again meanwhile
    };
    started?.once('exit', () => setTimeout(restart, restartMs).unref());
  }

  /** From now on it may end. */
  release(): void {
    this.#isKept = false;
  }

  /** As seen from the host. */
  async pid(): Promise<number> {
    if (this.#process?.pid === undefined) throw new Error(`${this.name} was not started`);
    return onlyChild(this.#process.pid);
  }

  /** Pauses it: connections stay open and nothing answers. */
  async pause(): Promise<void> {
    process.kill(await this.pid(), 'SIGSTOP');
  }

  async resume(): Promise<void> {
    process.kill(await this.pid(), 'SIGCONT');
    this.#resumeParent();
  }

  /** Resolves when it is gone. */
  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    this.release();
    if (!this.#process || this.#process.exitCode !== null || this.#process.signalCode !== null) return;
    this.#process.ref(); // otherwise nothing would keep this process alive
    const exited = once(this.#process, 'exit');
    process.kill(await this.pid(), signal);
    this.#resumeParent();
    await exited;
  }

  /** nsenter pauses itself with its child, and then does not notice its end. */
  #resumeParent(): void {
    this.#process?.kill('SIGCONT');
  }

  /** Its last log lines, for error messages. */
  async tail(lines = 15): Promise<string> {
    const text = await readFile(this.logFile, 'utf8').catch(() => '');
    return `--- ${this.name}\n${text.trimEnd().split('\n').slice(-lines).join('\n')}`;
  }
}
