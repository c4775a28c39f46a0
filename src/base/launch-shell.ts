import { type ChildProcess, spawn } from 'node:child_process';
import type { Socket } from 'node:net';
import { constants } from 'node:os';
import { MoorageError } from './errors.ts';
import {
  type Command,
  CommandFailed,
  CommandNotFound,
  type Exit,
  kill,
  type Output,
  outputThatArrived,
  type RunOptions,
  WatchedCommand,
} from './exec.ts';

const report = 3; // a file descriptor
/** The shell's exit code for a program that it cannot find. */
const notFound = 127;
/** A shell adds the number of the signal that killed a command to this. */
const killedBy = 128;

/** The variables of an environment. */
export type Variables = readonly (readonly [name: string, value: string])[];

interface Running {
  readonly watched: WatchedCommand;
  readonly ended: (status: number) => void;
  readonly lost: (error: Error) => void;
  /** What the shell has reported so far: the process ID of the command, and its exit code. */
  report: string;
}

/**
 * One `sh` that starts one command after another. It only starts them: each word is quoted and reaches the command
 * unchanged. Killing a command also kills its shell, because both are in one process group.
 */
export class LaunchShell {
  readonly #child: ChildProcess;
  /** Empty if the system has no free file descriptors. */
  readonly #pipes: readonly Socket[];
  readonly #gone = Promise.withResolvers<void>();
  #usable = true;
  #running: Running | undefined;

  constructor(env: NodeJS.ProcessEnv) {
    this.#child = spawn('sh', [], { detached: true, stdio: ['pipe', 'pipe', 'pipe', 'pipe'], env });
    this.#child.once('error', (error) => this.#lost(error));
    this.#child.once('exit', (exitCode, signal) => this.#lost(new Error(`it exited (${signal ?? exitCode})`)));
    this.#child.unref(); // an idle shell must not keep the process alive
    this.#pipes = (this.#child.stdio ?? []) as readonly unknown[] as readonly Socket[];
    const [, stdout, stderr, reports] = this.#pipes;
    stdout?.on('data', (piece: Buffer) => this.#printed('stdout', piece));
    stderr?.on('data', (piece: Buffer) => this.#printed('stderr', piece));
    reports?.setEncoding('utf8').on('data', (piece: string) => this.#reported(piece));
    for (const pipe of this.#pipes) {
      pipe.on('error', () => undefined); // the exit of the shell reports the same
      pipe.unref();
    }
  }

  /** Whether it can run another command. */
  get usable(): boolean {
    return this.#usable;
  }

  /** The variables are set for this command only. */
  async run(command: Command, variables: Variables, options: RunOptions): Promise<Output> {
    using watched = new WatchedCommand(command, options, () => this.#killCommand());
    const { promise, resolve, reject } = Promise.withResolvers<number>();
    const lost = (cause: Error) => reject(new LaunchShellLost(command, cause));
    this.#running = { watched, ended: resolve, lost, report: '' };
    const settings = variables.map(([name, value]) => `${name}=${quote(value)} `).join('');
    const words = command.map(quote).join(' ');
    this.#child.ref();
    try {
      const start = `${settings}exec ${words} </dev/null ${report}>&-`;
      this.#stdin?.write(`${start} & echo $! >&${report}; wait $!; echo $? >&${report}\n`);
      const status = await promise;
      await outputThatArrived();
      this.#running = undefined;
      if (watched.killed) await this.#killGroup();
      return watched.outcome(exitOf(status));
    } catch (error) {
      throw isOfShell(error) ? notStarted(command, error) : error;
    } finally {
      this.#child.unref();
    }
  }

  /** The shell exits by itself, and processes that its commands left behind stay. */
  close(): void {
    this.#usable = false;
    this.#stdin?.end();
  }

  get #stdin(): Socket | undefined {
    return this.#pipes[0];
  }

  #printed(where: keyof Output, piece: Buffer): void {
    if (this.#running) this.#running.watched.printed(where, piece);
    else this.close(); // a process that a command left behind would print into the next one's output
  }

  #reported(piece: string): void {
    if (!this.#running) return;
    this.#running.report += piece;
    const { pid, status } = this.#status;
    if (status !== undefined) this.#running.ended(status);
    else if (pid && this.#running.watched.killed) kill(pid);
  }

  /** Not yet the rest of its group: the shell reports when the command is gone, which a hung disk may delay. */
  #killCommand(): void {
    const { pid, status } = this.#status;
    if (pid && status === undefined) kill(pid); // otherwise once the shell has reported its process ID
  }

  async #killGroup(): Promise<void> {
    this.#usable = false;
    if (this.#child.pid !== undefined) kill(-this.#child.pid);
    await this.#gone.promise;
  }

  #lost(error: Error): void {
    this.#usable = false;
    this.#gone.resolve();
    for (const pipe of this.#pipes) pipe.destroy(); // a process left behind may hold the other ends for long
    if (!this.#running) return;
    if (this.#child.pid !== undefined) kill(-this.#child.pid); // the command, which is no longer supervised
    this.#running.lost(error);
  }

  /** The process ID and exit code of the running command. */
  get #status(): { readonly pid?: number; readonly status?: number } {
    const [pid, status] = (this.#running?.report ?? '').split('\n').slice(0, -1).map(Number);
    return { ...(pid !== undefined && { pid }), ...(status !== undefined && { status }) };
  }
}

/** A shell does not interpret text between single quotes. */
function quote(word: string): string {
  return `'${word.replaceAll("'", "'\\''")}'`;
}

function exitOf(status: number): Exit {
  const [signal] = Object.entries(constants.signals).find(([, number]) => number === status - killedBy) ?? [];
  return signal ? { exitCode: null, signal: signal as NodeJS.Signals } : { exitCode: status, signal: null };
}

/** If a shell cannot start a program, the error and the exit code are the shell's, not the program's. */
function isOfShell(error: unknown): error is CommandFailed {
  return error instanceof CommandFailed && error.stderr.startsWith('sh: ');
}

function notStarted(command: Command, error: CommandFailed): MoorageError {
  return error.exitCode === notFound ? new CommandNotFound(command, error) : new CommandNotStarted(command, error);
}

/** The program exists, but the system refuses to run it. */
export class CommandNotStarted extends MoorageError {
  readonly code = 'Unavailable';

  constructor(command: Command, cause: CommandFailed) {
    const words = cause.stderr.trim();
    super(`cannot start ${command[0]}: ${words}; check the node's memory and system disk`, { cause });
  }
}

/** Whether the command was carried out is unknown. */
export class LaunchShellLost extends MoorageError {
  readonly code = 'Unavailable';

  constructor(command: Command, cause: Error) {
    super(`the shell that runs ${command.join(' ')} was lost: ${cause.message}; retry`, { cause });
  }
}
