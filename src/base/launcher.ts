import type { Clock, Timer } from './clock.ts';
import { type Command, type Run, type RunOptions, refuseIfCancelled, run } from './exec.ts';
import { LaunchShell, type Variables } from './launch-shell.ts';

/** A node starts commands in bursts; between them shells are not needed. */
const idleMs = 30_000;
const keptAtMost = 4;

/**
 * Runs commands like `run`, but several times faster: starting a program forks a process, and a small shell forks faster
 * than this process. There are as many shells as concurrent commands, so that none waits for another.
 */
export class Launcher implements Disposable {
  readonly #env: NodeJS.ProcessEnv;
  readonly #clock: Clock;
  readonly #idle = new Map<LaunchShell, Timer>();
  #keptAtMost = keptAtMost;

  /** `env` is the environment of commands without their own. */
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

  /** Ends idle shells, and keeps none from now on. */
  [Symbol.dispose](): void {
    this.#keptAtMost = 0;
    for (const shell of this.#idle.keys()) this.#end(shell);
  }

  #take(): LaunchShell {
    for (const [shell, timer] of [...this.#idle].toReversed()) {
      // the one used last, so that the others become idle and exit
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

/** A shell has its own directory and input; and it cannot pass a NUL byte, which `run` rejects with a clear error. */
function canBeLaunched(command: Command, { cwd, input }: RunOptions): boolean {
  return cwd === undefined && input === undefined && !command.some((word) => word.includes('\0'));
}

/** The variables to set to turn one environment into the other; undefined if that is not enough, or not possible. */
function difference(from: NodeJS.ProcessEnv, to: NodeJS.ProcessEnv): Variables | undefined {
  if (Object.keys(from).some((name) => to[name] === undefined)) return undefined;
  const variables = Object.entries(to).filter((one): one is [string, string] => one[1] !== from[one[0]]);
  const canBeSet = variables.every(([name, value]) => /^[A-Za-z_]\w*$/.test(name) && !value.includes('\0'));
  return canBeSet ? variables : undefined;
}
