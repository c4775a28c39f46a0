import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';

/**
 * Cleans a world's directory and everything the world made out of it, when told to or when we are gone: it waits for
 * the end of its input, which comes also if this process is killed. There is one way to clean up, so it is always tested.
 */
export class Janitor {
  readonly #process;
  readonly #exited: Promise<unknown>;

  constructor(dir: string) {
    const script = join(import.meta.dirname, 'janitor.sh');
    // A session of its own: Ctrl-C must not stop it.
    this.#process = spawn('sh', [script, dir], { stdio: ['pipe', 'ignore', 'inherit'], detached: true });
    this.#exited = once(this.#process, 'exit');
  }

  /** Resolves when nothing is left. */
  async clean(): Promise<void> {
    this.#process.stdin.end();
    await this.#exited;
  }
}
