import { type ChildProcess, spawn } from 'node:child_process';
import type { Socket } from 'node:net';
import { MoorageError, messageOf } from '../../base/errors.ts';
import { type Command, CommandFailed, CommandTimedOut, killGroup } from '../../base/exec.ts';
import { AnswerReader, type ShellAnswer } from './shell-answer.ts';

const maxAnswerChars = 16 * 1024 * 1024;
const reportFd = 3;
/** LVM's shell takes 64 words, and never answers a longer command. */
const maxWords = 60;

/**
 * Tunes malloc: LVM is not written for one process that runs many commands.
 *
 * LVM reserves memory before it suspends a device, by touching it. Memory that stays in the process is reused; memory
 * returned to the kernel would have to be faulted in again by each command.
 *
 * Each command allocates one large, page-aligned block for its disk reads. The remainders of the alignment must merge
 * with the block when it is freed. In the thread cache they would be reused for other data, the next large block would
 * no longer fit, and a heap of 1 MiB would grow to 80 MiB within some commands, all locked in memory.
 */
const steadyMemory = { MALLOC_TRIM_THRESHOLD_: '4194304', GLIBC_TUNABLES: 'glibc.malloc.tcache_count=0' };

export interface LvmShellOptions {
  /** How to call `lvm` itself, for instance through nsenter. */
  readonly command: Command;
  readonly env: NodeJS.ProcessEnv;
  /** Directory of the configuration that makes lvm answer in the expected format. */
  readonly systemDir: string;
}

interface Waiting {
  readonly words: readonly string[];
  readonly answered: (answer: ShellAnswer) => void;
  readonly failed: (error: Error) => void;
}

/**
 * One `lvm` process for many commands: it starts, reads its configuration and reserves memory only once. For one caller
 * at a time. A shell that gives no answer or an unexpected one is killed; the effect of its command is then unknown.
 */
export class LvmShell {
  readonly #command: Command;
  readonly #child: ChildProcess;
  readonly #answers = new AnswerReader(maxAnswerChars);
  #waiting: Waiting | undefined;
  #death: LvmShellDied | undefined;

  constructor({ command, env, systemDir }: LvmShellOptions) {
    this.#command = command;
    const [program, ...args] = command;
    this.#child = spawn(program, args, {
      detached: true, // its own process group, so that its children are killed too
      stdio: ['pipe', 'ignore', 'ignore', 'pipe'],
      env: {
        ...env,
        ...steadyMemory,
        LC_ALL: 'C',
        LVM_SYSTEM_DIR: systemDir,
        LVM_REPORT_FD: String(reportFd),
        LVM_SUPPRESS_FD_WARNINGS: '1',
      },
    });
    const reports = this.#child.stdio[reportFd] as Socket;
    reports.setEncoding('utf8').on('data', (piece: string) => this.#read(piece));
    reports.on('error', (error) => this.#die(messageOf(error)));
    this.#child.stdin?.on('error', (error) => this.#die(messageOf(error)));
    this.#child.once('error', (error) => this.#die(messageOf(error)));
    this.#child.once('exit', (exitCode, signal) => this.#die(`it exited (${signal ?? exitCode})`));
    this.#child.unref(); // an idle shell must not keep this process running
    reports.unref();
    (this.#child.stdin as Socket).unref();
  }

  get alive(): boolean {
    return this.#death === undefined;
  }

  /** Whether the shell passes these words on unchanged: it has its own quotes, blanks and comments. */
  static understands(words: readonly string[]): boolean {
    return words.length <= maxWords && words.every((word) => /^(?!#)[A-Za-z0-9_+./=!:&#@%,^-]+$/.test(word));
  }

  /** Runs a command to its end and returns its report. Only the timeout stops it, not a caller that leaves. */
  async run(words: readonly string[], timeoutMs: number): Promise<string> {
    if (this.#death) throw this.#death;
    if (this.#waiting) throw new LvmShellDied('two commands at once');
    const { promise, resolve, reject } = Promise.withResolvers<ShellAnswer>();
    this.#waiting = { words, answered: resolve, failed: reject };
    const deadline = setTimeout(() => {
      reject(new CommandTimedOut([...this.#command, ...words], timeoutMs));
      this.#die('a command timed out');
    }, timeoutMs);
    this.#child.stdin?.write(`${words.join(' ')}\n`);
    try {
      const answer = await promise;
      if (answer.ok) return answer.report;
      const { exitCode, report, errors } = answer;
      throw new CommandFailed([...this.#command, ...words], { exitCode, signal: null, stdout: report, stderr: errors });
    } finally {
      clearTimeout(deadline);
      this.#waiting = undefined;
    }
  }

  close(): void {
    this.#die('it was closed');
  }

  #read(piece: string): void {
    try {
      for (const answer of this.#answers.read(piece)) this.#take(answer);
    } catch (error) {
      this.#die(messageOf(error));
    }
  }

  #take(answer: ShellAnswer): void {
    const waiting = this.#waiting;
    if (waiting?.words[0] !== answer.subcommand) {
      this.#die(`it answered ${answer.subcommand}, expected ${waiting?.words[0] ?? 'nothing'}`);
      return;
    }
    this.#waiting = undefined;
    waiting.answered(answer);
  }

  #die(reason: string): void {
    if (this.#death) return;
    this.#death = new LvmShellDied(reason);
    this.#waiting?.failed(this.#death);
    killGroup(this.#child);
  }
}

/** The shell failed; whether it completed its last command is unknown. */
export class LvmShellDied extends MoorageError {
  readonly code = 'Unavailable';

  constructor(reason: string) {
    super(`the lvm shell failed: ${reason}; retry the request`);
  }
}
