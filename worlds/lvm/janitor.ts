import type { ChildProcessByStdio } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import type { Writable } from 'node:stream';
import { spawn } from '../host/processes.ts';
import { addOwner } from '../host/run-dir.ts';

/**
 * Removes a world's directory and everything created from it, when told to or when this process ends: it waits for the
 * end of its input, which comes even if this process is killed. There is only one way to clean up, so it is always tested.
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
    // Its own session: Ctrl-C must not stop it.
    const process = spawn('sh', [script, dir], { stdio: ['pipe', 'ignore', 'inherit'], detached: true });
    const janitor = new Janitor(process);
    if (process.pid) await addOwner(dir, process.pid); // so that no other run cleans this directory
    return janitor;
  }

  /** Resolves when nothing is left. */
  async clean(): Promise<void> {
    this.#process.stdin.end();
    await this.#exited;
  }
}
