import { isDeepStrictEqual } from 'node:util';
import type { Clock, Timer } from '../../base/clock.ts';
import { messageOf } from '../../base/errors.ts';
import { type Command, CommandFailed, type Run, type RunOptions } from '../../base/exec.ts';
import type { Log } from '../../base/log.ts';
import { PoolMissing } from '../errors.ts';
import { LvmShell } from './lvm-shell.ts';
import { NodeConfiguration } from './node-configuration.ts';
import { type GroupReport, parseReport, reportArguments } from './report.ts';
import {
  type Disks,
  issuesDiscards,
  processSettings,
  rootOf,
  settingsForDisks,
  writeShellSettings,
} from './shell-settings.ts';

const defaultCommandTimeoutMs = 60_000;
/** LVM reads all metadata of a thin pool, up to 16 GiB, to activate it, and starts over if interrupted. */
const activationTimeoutMs = 12 * 3600_000;
const shellStartTimeoutMs = 10_000;
/** How long commands run as processes after a shell failed to start. */
const shellPauseMs = 60_000;
/** Volumes change in bursts; between them the memory of a shell is better freed. */
const shellIdleMs = 2000;

/** LVM commands and shells since the process started. */
export interface LvmCounts {
  /** Commands run through a shell, and as processes. */
  readonly commands: { shell: number; exec: number };
  /** Shells that failed and were replaced. */
  shellRestarts: number;
  /** How often a shell could not be started, so that commands ran as processes for a while. */
  shellFailures: number;
}

export function newLvmCounts(): LvmCounts {
  return { commands: { shell: 0, exec: 0 }, shellRestarts: 0, shellFailures: 0 };
}

export interface LvmOptions {
  /** How to call `lvm` itself, for instance through nsenter. */
  readonly command: Command;
  readonly run: Run;
  readonly env: NodeJS.ProcessEnv;
  readonly clock: Clock;
  readonly log: Log;
  readonly counts: LvmCounts;
  /** LVM commits within a second even on slow disks; a command that takes longer than this hangs. Default: 1 minute. */
  readonly commandTimeoutMs?: number;
}

/**
 * Runs LVM commands for one volume group: one at a time, through its own shell, so that a hung disk of another group
 * does not block it. If no shell can be started, each command is a process, which is logged and counted.
 */
export class Lvm {
  readonly #command: Command;
  readonly #run: Run;
  readonly #env: NodeJS.ProcessEnv;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #counts: LvmCounts;
  readonly #commandTimeoutMs: number;
  readonly #configuration: NodeConfiguration;
  #disks: Disks = { devices: [], metadataAreaBytes: 0n };
  #shell: LvmShell | undefined;
  #noShellUntilMs = 0;
  #issuesDiscards = false;
  #idle: Timer | undefined;

  constructor({ command, run, env, clock, log, counts, commandTimeoutMs }: LvmOptions) {
    this.#command = command;
    this.#run = run;
    this.#env = { ...env, LC_ALL: 'C' };
    this.#clock = clock;
    this.#log = log;
    this.#counts = counts;
    this.#commandTimeoutMs = commandTimeoutMs ?? defaultCommandTimeoutMs;
    this.#configuration = new NodeConfiguration({ command, run, env: this.#env });
  }

  /** The root directory under which this process sees LVM's files. */
  get root(): string {
    return rootOf(this.#command);
  }

  /** Sets the disks of the group. Without disks, as when one is missing, there is no shell. */
  useDisks(disks: Disks): void {
    if (isDeepStrictEqual(disks, this.#disks)) return;
    this.#disks = disks;
    this.close();
  }

  /**
   * Whether the node is configured to discard freed space; our own commands never do. For one caller at a time, like
   * `execute`. It starts a shell to find out, as the removal needs one anyway.
   */
  async issuesDiscards(): Promise<boolean> {
    this.#idle?.cancel();
    const shell = await this.#shellFor([]);
    if (shell) this.#rest();
    else await this.#configured();
    return this.#issuesDiscards;
  }

  /** Runs a command and returns its report. For one caller at a time; once started, only its timeout ends it early. */
  async execute(args: readonly string[]): Promise<string> {
    this.#idle?.cancel();
    try {
      const shell = await this.#shellFor(args);
      if (!shell) return await this.#process(args);
      this.#counts.commands.shell++;
      return await shell.run(args, this.#commandTimeoutMs);
    } finally {
      if (this.#shell?.alive) this.#rest();
      else if (this.#shell) this.#lose();
    }
  }

  /**
   * Reads the group without the shell. Its known disks are enough while the group is complete on them. Other disks of the
   * node may be many, and may hang.
   */
  async survey(group: string, signal: AbortSignal): Promise<GroupReport> {
    return (await this.#surveyKnownDisks(group, signal)) ?? (await this.#surveyAllDisks(group, signal));
  }

  /** Runs a command that activates volumes, however long LVM checks their thin pool first. It can be cancelled. */
  async activate(args: readonly string[], signal: AbortSignal): Promise<void> {
    const deactivated: string[] = [];
    for (;;) {
      try {
        await this.#process(args, signal, activationTimeoutMs);
        return;
      } catch (error) {
        const parts = partsLeftActive(error).filter((part) => !deactivated.includes(part));
        if (parts.length === 0) throw error;
        const isWhat = `an interrupted check of the thin pool left ${parts.join(', ')} active`;
        this.#log.warn({ err: error }, `${isWhat}; deactivating, then repeating the check`);
        await this.#process(['lvchange', '--yes', '--activate', 'n', ...parts], signal); // fails if it is in use
        deactivated.push(...parts);
      }
    }
  }

  /** Runs a tool that is installed next to lvm. */
  async tool(name: string, args: readonly string[], options: Partial<RunOptions> = {}): Promise<string> {
    const command = [...this.#command.slice(0, -1), (this.#command.at(-1) ?? '').replace(/lvm$/, name), ...args];
    const usual = { timeoutMs: this.#commandTimeoutMs, env: this.#env };
    return (await this.#run(command as [string, ...string[]], { ...usual, ...options })).stdout;
  }

  /** Stops the shell; the next command starts a new one. */
  close(): void {
    this.#idle?.cancel();
    this.#shell?.close();
    this.#shell = undefined;
  }

  async #surveyKnownDisks(group: string, signal: AbortSignal): Promise<GroupReport | undefined> {
    const { devices } = this.#disks;
    if (devices.length === 0) return undefined;
    const settings = settingsForDisks(devices);
    try {
      const report = parseReport(await this.#process(reportArguments(group), signal, this.#commandTimeoutMs, settings));
      return report.isPartial ? undefined : report;
    } catch (error) {
      if (error instanceof CommandFailed) return undefined; // the group no longer exists, or moved to other disks
      throw error;
    }
  }

  async #surveyAllDisks(group: string, signal: AbortSignal): Promise<GroupReport> {
    try {
      return parseReport(await this.#process(reportArguments(group), signal));
    } catch (error) {
      if (!(error instanceof CommandFailed) || !/Volume group ".*" not found/.test(error.stderr)) throw error;
      throw new PoolMissing(`volume group ${group} is not on this node; create it, or correct volume-group`, {
        cause: error,
      });
    }
  }

  async #process(
    [subcommand = '', ...words]: readonly string[],
    signal?: AbortSignal,
    timeoutMs = this.#commandTimeoutMs,
    settings = processSettings,
  ): Promise<string> {
    this.#counts.commands.exec++;
    const options = { timeoutMs, env: this.#env, ...(signal && { signal }) };
    // LVM takes one --config, and the lvcreate options of a device class may contain it.
    const config = words.some((word) => /^--config(=|$)/.test(word)) ? [] : ['--config', settings];
    return (await this.#run([...this.#command, subcommand, ...config, ...words], options)).stdout;
  }

  async #shellFor(args: readonly string[]): Promise<LvmShell | undefined> {
    if (this.#shell && !this.#shell.alive) this.#lose(); // it exited while idle
    if (this.#disks.devices.length === 0 || !LvmShell.understands(args)) return undefined;
    if (this.#shell) return this.#shell;
    if (this.#clock.monotonic() < this.#noShellUntilMs) return undefined;
    try {
      this.#shell = await this.#started();
      return this.#shell;
    } catch (error) {
      this.#noShellUntilMs = this.#clock.monotonic() + shellPauseMs;
      this.#counts.shellFailures++;
      this.#log.warn(
        { err: error },
        `cannot start the lvm shell; running commands as processes for ${shellPauseMs / 1000} s: ${messageOf(error)}`,
      );
      return undefined;
    }
  }

  async #started(): Promise<LvmShell> {
    const systemDir = await writeShellSettings(this.root, await this.#configured(), this.#disks);
    const shell = new LvmShell({ command: this.#command, env: this.#env, systemDir });
    try {
      await shell.run(['version'], shellStartTimeoutMs); // verifies that it answers in the expected format
      return shell;
    } catch (error) {
      shell.close();
      throw error;
    }
  }

  #rest(): void {
    this.#idle = this.#clock.setTimer(() => this.close(), shellIdleMs);
  }

  async #configured(): Promise<string> {
    const merged = await this.#configuration.merged();
    this.#issuesDiscards = issuesDiscards(merged);
    return merged;
  }

  #lose(): void {
    this.#shell = undefined;
    this.#counts.shellRestarts++;
    this.#log.warn('the lvm shell failed; the next command starts a new one');
  }
}

/** LVM activates parts of a thin pool to check it, and refuses to activate the pool while one of them is active. */
function partsLeftActive(error: unknown): readonly string[] {
  if (!(error instanceof CommandFailed)) return [];
  const found = error.stderr.matchAll(/prohibited while logical volume (\S+) is active/g);
  return [...new Set([...found].map(([, part = '']) => part))];
}
