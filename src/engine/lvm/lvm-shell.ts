import { type ChildProcess, spawn } from 'node:child_process';
import type { Socket } from 'node:net';
import { MoorageError, messageOf } from '../../base/errors.ts';
import { type Command, CommandFailed, CommandTimedOut, killGroup } from '../../base/exec.ts';
import { AnswerReader, type ShellAnswer } from './shell-answer.ts';

const maxAnswerChars = 16 * 1024 * 1024;
const reportFd = 3;
/** LVM's shell takes 64 words, and never answers to more. */
const maxWords = 60;

/**
 * How the C library shall treat the memory of a process that LVM did not write for many commands.
 *
 * LVM sets memory aside before it suspends a device, by touching it. Kept in the process, that memory is there the next
 * time; given back to the kernel, each command would pay for it anew.
 *
 * Each command takes one large piece for what it reads from disks, cut to whole pages. The scraps of the cut must join it
 * again when it is free: kept in the library's cache of small pieces, they are used for something else, the next large
 * piece does not fit there any more, and within some commands a heap of 1 MiB grows to 80, all locked in memory.
 */
const steadyMemory = { MALLOC_TRIM_THRESHOLD_: '4194304', GLIBC_TUNABLES: 'glibc.malloc.tcache_count=0' };

export interface LvmShellOptions {
  /** How to call `lvm` itself, for instance through nsenter. */
  readonly command: Command;
  readonly env: NodeJS.ProcessEnv;
  /** Where lvm finds the configuration that makes it answer so that it can be understood. */
  readonly systemDir: string;
}

interface Waiting {
  readonly words: readonly string[];
  readonly answered: (answer: ShellAnswer) => void;
  readonly failed: (error: Error) => void;
}

/**
 * One `lvm` process that takes command after command: it need not start, read its configuration and set memory aside
 * each time. Commands are for one caller at a time. A shell that says anything unexpected, or nothing, is killed, and
 * what its command did is then unknown.
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
      detached: true, // a process group of its own, so that all of it can be killed
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
    this.#child.once('exit', (exitCode, signal) => this.#die(`it ended (${signal ?? exitCode})`));
    this.#child.unref(); // a shell that merely waits keeps nobody from ending
    reports.unref();
    (this.#child.stdin as Socket).unref();
  }

  get alive(): boolean {
    return this.#death === undefined;
  }

  /** Whether the shell would understand these words as they are meant: it has quotes, blanks and comments of its own. */
  static understands(words: readonly string[]): boolean {
    return words.length <= maxWords && words.every((word) => /^(?!#)[A-Za-z0-9_+./=!:&#@%,^-]+$/.test(word));
  }

  /** Runs a command to its end and returns its report. A caller that leaves does not stop it; only the deadline does. */
  async run(words: readonly string[], timeoutMs: number): Promise<string> {
    if (this.#death) throw this.#death;
    if (this.#waiting) throw new LvmShellDied('two commands at once');
    const { promise, resolve, reject } = Promise.withResolvers<ShellAnswer>();
    this.#waiting = { words, answered: resolve, failed: reject };
    const deadline = setTimeout(() => {
      reject(new CommandTimedOut([...this.#command, ...words], timeoutMs));
      this.#die('a command took too long');
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
      this.#die(`it answered ${answer.subcommand}, asked was ${waiting?.words[0] ?? 'nothing'}`);
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

/** The shell is gone; whether it had carried out its last command is not known. */
export class LvmShellDied extends MoorageError {
  readonly code = 'Unavailable';

  constructor(reason: string) {
    super(`the lvm shell was lost: ${reason}; repeat the request`);
  }
}
