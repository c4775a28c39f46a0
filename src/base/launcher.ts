import type { Clock, Timer } from './clock.ts';
import { type Command, type Run, type RunOptions, refuseIfCancelled, run } from './exec.ts';
import { LaunchShell, type Variables } from './launch-shell.ts';

/** A node starts commands in bursts; between them there is nothing to keep shells for. */
const idleMs = 30_000;
const keptAtMost = 4;

/**
 * Runs commands as `run` does, several times faster: to start a program a process is copied, and a small shell is copied
 * sooner than we are. There are as many shells as commands at the same time, so that none waits for another.
 */
export class Launcher implements Disposable {
  readonly #env: NodeJS.ProcessEnv;
  readonly #clock: Clock;
  readonly #idle = new Map<LaunchShell, Timer>();
  #keptAtMost = keptAtMost;

  /** `env` is what commands inherit that have no environment of their own. */
  constructor({ env, clock }: { readonly env: NodeJS.ProcessEnv; readonly clock: Clock }) {
    this.#env = env;
    this.#clock = clock;
  }

  readonly run: Run = async (command, options) => {
    const env = options.env ?? this.#env;
    const variables = difference(this.#env, env);
    if (!variables || !canBeLaunched(command, options)) return run(command, { ...options, env });
    refuseIfCancelled(command, options);
    const shell = this.#take();
    try {
      return await shell.run(command, variables, options);
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
    return new LaunchShell(this.#env);
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

/** A shell has its own directory and input; and no word for it can hold a zero, which `run` refuses by name. */
function canBeLaunched(command: Command, { cwd, input }: RunOptions): boolean {
  return cwd === undefined && input === undefined && !command.some((word) => word.includes('\0'));
}

/** What has to be set in one environment to have the other; undefined if that is not all, or the shell cannot set it. */
function difference(from: NodeJS.ProcessEnv, to: NodeJS.ProcessEnv): Variables | undefined {
  if (Object.keys(from).some((name) => to[name] === undefined)) return undefined;
  const variables = Object.entries(to).filter((one): one is [string, string] => one[1] !== from[one[0]]);
  const canBeSet = variables.every(([name, value]) => /^[A-Za-z_]\w*$/.test(name) && !value.includes('\0'));
  return canBeSet ? variables : undefined;
}
