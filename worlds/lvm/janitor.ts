import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import type { Writable } from 'node:stream';
import { addOwner } from '../host/run-dir.ts';

/**
 * Cleans a world's directory and everything the world made out of it, when told to or when we are gone: it waits for
 * the end of its input, which comes also if this process is killed. There is one way to clean up, so it is always tested.
 */
export class Janitor {
  readonly #process: ChildProcessByStdio<Writable, null, null>;
  readonly #exited: Promise<unknown>;

  private constructor(process: ChildProcessByStdio<Writable, null, null>) {
    this.#process = process;
    this.#exited = once(process, 'exit');
  }

  static async start(dir: string): Promise<Janitor> {
    const script = join(import.meta.dirname, 'janitor.sh');
    // A session of its own: Ctrl-C must not stop it.
    const process = spawn('sh', [script, dir], { stdio: ['pipe', 'ignore', 'inherit'], detached: true });
    const janitor = new Janitor(process);
    if (process.pid) await addOwner(dir, process.pid); // nobody else is to clean where it does
    return janitor;
  }

  /** Resolves when nothing is left. */
  async clean(): Promise<void> {
    this.#process.stdin.end();
    await this.#exited;
  }
}
