import { type ChildProcess, spawn } from 'node:child_process';
import { codeOf, type ErrorCode, MoorageError } from './errors.ts';
import { formatBytes } from './quantity.ts';

export interface RunOptions {
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
  /** Written to standard input. Pass secrets here: arguments are visible to everyone on the machine. */
  readonly input?: string | Uint8Array;
  readonly env?: NodeJS.ProcessEnv;
  readonly cwd?: string;
  /** Standard output and standard error together. */
  readonly maxOutputBytes?: number;
  /** Called with each piece of standard output, which is then neither limited nor returned. */
  readonly onStdout?: (piece: Buffer) => void;
}

export interface Output {
  readonly stdout: string;
  readonly stderr: string;
}

export type Command = readonly [program: string, ...args: string[]];

/** The type of `run`, so that tests can replace it. */
export type Run = (command: Command, options: RunOptions) => Promise<Output>;

const defaultMaxOutputBytes = 16 * 1024 * 1024;

/**
 * Runs a command and returns its output; any exit code but 0 is an error.
 *
 * The command gets its own process group. If its deadline passes, its signal aborts or it prints too much, the group
 * is killed, and the promise settles only once the command is gone: it certainly no longer works on the disk.
 * A process that the command left behind with its output open is not waited for.
 */
export async function run(command: Command, options: RunOptions): Promise<Output> {
  refuseIfCancelled(command, options);
  const [program, ...args] = command;
  const child = spawn(program, args, {
    detached: true,
    stdio: [options.input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
    ...(options.env && { env: options.env }),
    ...(options.cwd && { cwd: options.cwd }),
  });
  using watched = new WatchedCommand(command, options, () => killGroup(child));
  child.stdout?.on('data', (chunk: Buffer) => watched.printed('stdout', chunk));
  child.stderr?.on('data', (chunk: Buffer) => watched.printed('stderr', chunk));
  // A command need not read its input: a broken pipe says nothing that the exit code does not.
  child.stdin?.on('error', () => undefined);
  child.stdin?.end(options.input);
  try {
    const exit = await exitOf(child, command);
    await outputThatArrived();
    return watched.outcome(exit);
  } finally {
    child.stdout?.destroy();
    child.stderr?.destroy();
  }
}

export function refuseIfCancelled(command: Command, { signal }: RunOptions): void {
  if (signal?.aborted) throw new CommandCancelled(command, signal.reason);
}

export interface Exit {
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** A running command: collects its output, and has it killed at most once. */
export class WatchedCommand implements Disposable {
  readonly #command: Command;
  readonly #options: RunOptions;
  readonly #kill: () => void;
  readonly #deadline: NodeJS.Timeout;
  readonly #pieces = { stdout: [] as Buffer[], stderr: [] as Buffer[] };
  #printedBytes = 0;
  #killedBecause: MoorageError | undefined;

  constructor(command: Command, options: RunOptions, kill: () => void) {
    this.#command = command;
    this.#options = options;
    this.#kill = kill;
    const { timeoutMs, signal } = options;
    this.#deadline = setTimeout(() => this.#killBecause(new CommandTimedOut(command, timeoutMs)), timeoutMs);
    signal?.addEventListener('abort', this.#onAbort, { once: true });
  }

  get killed(): boolean {
    return this.#killedBecause !== undefined;
  }

  printed(where: keyof Output, piece: Buffer): void {
    const { maxOutputBytes = defaultMaxOutputBytes, onStdout } = this.#options;
    if (where === 'stdout' && onStdout) return onStdout(piece);
    this.#printedBytes += piece.length;
    if (this.#printedBytes <= maxOutputBytes) this.#pieces[where].push(piece);
    else this.#killBecause(new CommandPrintedTooMuch(this.#command, maxOutputBytes));
  }

  /** Called once the command is gone. */
  outcome(exit: Exit): Output {
    if (this.#killedBecause) throw this.#killedBecause;
    const { stdout, stderr } = this.#pieces;
    const output = { stdout: Buffer.concat(stdout).toString(), stderr: Buffer.concat(stderr).toString() };
    if (exit.exitCode !== 0) throw new CommandFailed(this.#command, { ...exit, ...output });
    return output;
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#deadline);
    this.#options.signal?.removeEventListener('abort', this.#onAbort);
  }

  readonly #onAbort = () => this.#killBecause(new CommandCancelled(this.#command, this.#options.signal?.reason));

  #killBecause(reason: MoorageError): void {
    if (this.#killedBecause) return;
    this.#killedBecause = reason;
    this.#kill();
  }
}

/** A child that was started `detached`, with all its descendants. */
export function killGroup(child: ChildProcess): void {
  const exited = child.exitCode !== null || child.signalCode !== null;
  if (child.pid !== undefined && !exited) kill(-child.pid);
}

/** A process, or a group if negative; one that has just exited is not an error. */
export function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

function exitOf(child: ChildProcess, command: Command): Promise<Exit> {
  return new Promise((resolve, reject) => {
    child.once('exit', (exitCode, signal) => resolve({ exitCode, signal }));
    child.once('error', (error: NodeJS.ErrnoException) => {
      reject(error.code === 'ENOENT' ? new CommandNotFound(command, error) : error);
    });
  });
}

/**
 * What the command printed before it exited is already in the pipes, and one turn of the event loop drains them.
 * Waiting for the end of the pipes would hang on any daemon that the command left behind.
 */
export async function outputThatArrived(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
  await new Promise((resolve) => setImmediate(resolve));
}

/** The command ran and failed. */
export class CommandFailed extends MoorageError {
  readonly code = 'Internal';
  readonly command: Command;
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;

  constructor(command: Command, outcome: Output & Exit) {
    const how = outcome.signal ? `was killed by ${outcome.signal}` : `failed with exit code ${outcome.exitCode}`;
    super(
      `${command.join(' ')} ${how}: ${lastWords(outcome.stderr) || lastWords(outcome.stdout) || 'it printed nothing'}`,
    );
    this.command = command;
    this.exitCode = outcome.exitCode;
    this.signal = outcome.signal;
    this.stdout = outcome.stdout;
    this.stderr = outcome.stderr;
  }
}

/** The last part of the output, on one line. */
function lastWords(text: string): string {
  const line = text.trim().replace(/\s*\n\s*/g, '; ');
  return line.length > 500 ? `…${line.slice(-500)}` : line;
}

export class CommandTimedOut extends MoorageError {
  readonly code = 'DeadlineExceeded';
  readonly command: Command;

  constructor(command: Command, timeoutMs: number) {
    super(
      `${command.join(' ')} took longer than ${timeoutMs / 1000} s and was killed; look for a slow or failing disk`,
    );
    this.command = command;
  }
}

/** The caller cancelled, and the command was killed. */
export class CommandCancelled extends MoorageError {
  readonly code: ErrorCode;

  constructor(command: Command, reason: unknown) {
    super(`${command.join(' ')} was cancelled by its caller`, { cause: reason });
    this.code = codeOf(reason) === 'DeadlineExceeded' ? 'DeadlineExceeded' : 'Cancelled';
  }
}

export class CommandNotFound extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(command: Command, cause?: Error) {
    super(`${command[0]} is not installed on this node; install its package, or correct PATH`, { cause });
  }
}

export class CommandPrintedTooMuch extends MoorageError {
  readonly code = 'Internal';

  constructor(command: Command, maxOutputBytes: number) {
    super(
      `${command.join(' ')} printed more than ${formatBytes(BigInt(maxOutputBytes))} and was killed; run it by hand to see why`,
    );
  }
}
