import type { Clock, Timer } from './clock.ts';
import { type Command, type Run, type RunOptions, refuseIfCancelled, run } from './exec.ts';
import { LaunchShell } from './launch-shell.ts';

/** A node starts commands in bursts; between them there is nothing to keep shells for. */
const idleMs = 30_000;
const keptAtMost = 4;

/**
 * Runs commands as `run` does, several times faster: to start a program a process is copied, and a small shell is copied
 * sooner than we are. There are as many shells as commands at the same time, so that none waits for another.
 */
export class Launcher implements Disposable {
  readonly #clock: Clock;
  readonly #idle = new Map<LaunchShell, Timer>();
  #keptAtMost = keptAtMost;

  constructor({ clock }: { readonly clock: Clock }) {
    this.#clock = clock;
  }

  readonly run: Run = async (command, options) => {
    if (!canBeLaunched(command, options)) return run(command, options);
    refuseIfCancelled(command, options);
    const shell = this.#take();
    try {
      return await shell.run(command, options);
    } finally {
      this.#keep(shell);
    }
  };

  /** Ends the shells that wait for something to do, and keeps none from now on. */
  [Symbol.dispose](): void {
    this.#keptAtMost = 0;
    for (const shell of this.#idle.keys()) this.#end(shell);
  }

  #take(): LaunchShell {
    for (const [shell, timer] of [...this.#idle].toReversed()) {
      // the one used last, so that the others get to their end
      timer.cancel();
      this.#idle.delete(shell);
      if (shell.usable) return shell;
    }
    return new LaunchShell();
  }

  #keep(shell: LaunchShell): void {
    if (!shell.usable) return;
    if (this.#idle.size < this.#keptAtMost)
      this.#idle.set(
        shell,
        this.#clock.setTimer(() => this.#end(shell), idleMs),
      );
    else shell.close();
  }

  #end(shell: LaunchShell): void {
    this.#idle.get(shell)?.cancel();
    this.#idle.delete(shell);
    shell.close();
  }
}

/** A shell has its own environment, directory and input; and no word for it can hold a zero, which `run` refuses by name. */
function canBeLaunched(command: Command, { env, cwd, input }: RunOptions): boolean {
  const isPlain = env === undefined && cwd === undefined && input === undefined;
  return isPlain && !command.some((word) => word.includes('\0'));
}
