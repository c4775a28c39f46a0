import type { Command, Run } from '../../base/exec.ts';

/** LVM commits within a second even on slow disks; what takes longer than this hangs. */
const timeoutMs = 60_000;

/** Runs LVM commands, one process each. */
export class Lvm {
  readonly #command: Command;
  readonly #run: Run;
  readonly #env: NodeJS.ProcessEnv;

  /** `command` is how to call `lvm` itself, for instance through nsenter. */
  constructor({
    command,
    run,
    env,
  }: { readonly command: Command; readonly run: Run; readonly env: NodeJS.ProcessEnv }) {
    this.#command = command;
    this.#run = run;
    this.#env = { ...env, LC_ALL: 'C' };
  }

  async execute(args: readonly string[], signal: AbortSignal): Promise<string> {
    const { stdout } = await this.#run([...this.#command, ...args], { timeoutMs, signal, env: this.#env });
    return stdout;
  }
}
