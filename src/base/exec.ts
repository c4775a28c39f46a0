import { type ChildProcess, spawn } from 'node:child_process';
import { codeOf, type ErrorCode, MoorageError } from './errors.ts';
import { formatBytes } from './quantity.ts';

export interface RunOptions {
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
  /** Goes to standard input. A secret belongs here: arguments are visible to everybody on the machine. */
  readonly input?: string | Uint8Array;
  readonly env?: NodeJS.ProcessEnv;
  readonly cwd?: string;
  /** Standard output and standard error together. */
  readonly maxOutputBytes?: number;
}

export interface Output {
  readonly stdout: string;
  readonly stderr: string;
}

export type Command = readonly [program: string, ...args: string[]];

/** How collaborators receive `run`, so that a test can stand in for the machine. */
export type Run = (command: Command, options: RunOptions) => Promise<Output>;

const defaultMaxOutputBytes = 16 * 1024 * 1024;

/**
 * Runs a command to its end and returns what it printed; anything but exit code 0 is an error.
 *
 * The command gets a process group of its own. When its deadline passes, its signal is aborted or it prints too much,
 * the whole group is killed, and the promise settles only once the command is gone: nobody has to wonder whether it
 * still works on the disk. A process that the command left behind holding its output open is not waited for.
 */
export async function run(command: Command, options: RunOptions): Promise<Output> {
  const { signal } = options;
  if (signal?.aborted) throw new CommandCancelled(command, signal.reason);

  const [program, ...args] = command;
  const child = spawn(program, args, {
    detached: true,
    stdio: [options.input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
    ...(options.env && { env: options.env }),
    ...(options.cwd && { cwd: options.cwd }),
  });

  let killedBecause: MoorageError | undefined;
  const kill = (because: MoorageError) => {
    if (killedBecause) return;
    killedBecause = because;
    killGroup(child);
  };

  const timer = setTimeout(() => kill(new CommandTimedOut(command, options.timeoutMs)), options.timeoutMs);
  const onAbort = () => kill(new CommandCancelled(command, signal?.reason));
  signal?.addEventListener('abort', onAbort, { once: true });

  const maxOutputBytes = options.maxOutputBytes ?? defaultMaxOutputBytes;
  const stdout: Buffer[] = [];
  const stderr: Buffer[] = [];
  let outputBytes = 0;
  const collect = (into: Buffer[]) => (chunk: Buffer) => {
    outputBytes += chunk.length;
    if (outputBytes > maxOutputBytes) kill(new CommandPrintedTooMuch(command, maxOutputBytes));
    else into.push(chunk);
  };
  child.stdout?.on('data', collect(stdout));
  child.stderr?.on('data', collect(stderr));
  // A command need not read its input: that its pipe is broken tells nothing that its exit code does not.
  child.stdin?.on('error', () => undefined);
  child.stdin?.end(options.input);

  try {
    const { exitCode, exitSignal } = await exitOf(child, command);
    await outputThatArrived();
    if (killedBecause) throw killedBecause;
    const output = { stdout: Buffer.concat(stdout).toString(), stderr: Buffer.concat(stderr).toString() };
    if (exitCode !== 0) throw new CommandFailed(command, { exitCode, signal: exitSignal, ...output });
    return output;
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', onAbort);
    child.stdout?.destroy();
    child.stderr?.destroy();
  }
}

function killGroup(child: ChildProcess): void {
  const exited = child.exitCode !== null || child.signalCode !== null;
  if (child.pid === undefined || exited) return;
  try {
    process.kill(-child.pid, 'SIGKILL');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error; // gone by itself just now
  }
}

function exitOf(
  child: ChildProcess,
  command: Command,
): Promise<{ exitCode: number | null; exitSignal: NodeJS.Signals | null }> {
  return new Promise((resolve, reject) => {
    child.once('exit', (exitCode, exitSignal) => resolve({ exitCode, exitSignal }));
    child.once('error', (error: NodeJS.ErrnoException) => {
      reject(error.code === 'ENOENT' ? new CommandNotFound(command, error) : error);
    });
  });
}

/**
 * What the command printed before it exited lies in the pipes already, and one turn of the event loop reads them empty.
 * Waiting for the end of the pipes instead would hang on any daemon that the command left behind.
 */
async function outputThatArrived(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
  await new Promise((resolve) => setImmediate(resolve));
}

/** The command ran and said no. */
export class CommandFailed extends MoorageError {
  readonly code = 'Internal';
  readonly command: Command;
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;

  constructor(
    command: Command,
    outcome: Output & { readonly exitCode: number | null; readonly signal: NodeJS.Signals | null },
  ) {
    const how = outcome.signal ? `was killed by ${outcome.signal}` : `failed with exit code ${outcome.exitCode}`;
    super(
      `${command.join(' ')} ${how}: ${lastWords(outcome.stderr) || lastWords(outcome.stdout) || 'it said nothing'}`,
    );
    this.command = command;
    this.exitCode = outcome.exitCode;
    this.signal = outcome.signal;
    this.stdout = outcome.stdout;
    this.stderr = outcome.stderr;
  }
}

/** Enough of what a command said to understand it, on one line. */
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

/** The caller gave up; so did the command. */
export class CommandCancelled extends MoorageError {
  readonly code: ErrorCode;

  constructor(command: Command, reason: unknown) {
    super(`${command.join(' ')} was cancelled by its caller`, { cause: reason });
    this.code = codeOf(reason) === 'DeadlineExceeded' ? 'DeadlineExceeded' : 'Cancelled';
  }
}

export class CommandNotFound extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(command: Command, cause: Error) {
    super(`${command[0]} is not installed on this node; install the package that holds it, or correct PATH`, { cause });
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
