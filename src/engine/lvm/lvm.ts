import { isDeepStrictEqual } from 'node:util';
import type { Clock, Timer } from '../../base/clock.ts';
import { messageOf } from '../../base/errors.ts';
import { type Command, CommandFailed, type Run } from '../../base/exec.ts';
import type { Log } from '../../base/log.ts';
import type { LvmFigures } from './lvm-figures.ts';
import { LvmShell } from './lvm-shell.ts';
import { NodeConfiguration } from './node-configuration.ts';
import {
  type Disks,
  issuesDiscards,
  processSettings,
  rootOf,
  settingsForDisks,
  writeShellSettings,
} from './shell-settings.ts';

const defaultCommandTimeoutMs = 60_000;
/** LVM reads all of a thin pool's metadata, up to 16 GiB, before it is active; cut short, it would begin again from the start. */
const activationTimeoutMs = 12 * 3600_000;
const shellStartTimeoutMs = 10_000;
/** How long commands run as processes of their own after a shell did not start. */
const shellPauseMs = 60_000;
/** A node changes its volumes in bursts, and between them the memory of a shell is better left to others. */
const shellIdleMs = 2000;

export interface LvmOptions {
  /** How to call `lvm` itself, for instance through nsenter. */
  readonly command: Command;
  readonly run: Run;
  readonly env: NodeJS.ProcessEnv;
  readonly clock: Clock;
  readonly log: Log;
  readonly figures: LvmFigures;
  /** LVM commits within a second even on slow disks; what takes longer than this hangs. A minute if not given. */
  readonly commandTimeoutMs?: number;
}

/**
 * Runs LVM commands for one volume group: one at a time, through a shell of its own, so that a hung disk of another
 * group is in nobody's way here. Where the shell cannot be had, each command is a process, and the log and figures say so.
 */
export class Lvm {
  readonly #command: Command;
  readonly #run: Run;
  readonly #env: NodeJS.ProcessEnv;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #figures: LvmFigures;
  readonly #commandTimeoutMs: number;
  readonly #configuration: NodeConfiguration;
  #disks: Disks = { devices: [], metadataAreaBytes: 0n };
  #shell: LvmShell | undefined;
  #noShellUntilMs = 0;
  #issuesDiscards = false;
  #idle: Timer | undefined;

  constructor({ command, run, env, clock, log, figures, commandTimeoutMs }: LvmOptions) {
    this.#command = command;
    this.#run = run;
    this.#env = { ...env, LC_ALL: 'C' };
    this.#clock = clock;
    this.#log = log;
    this.#figures = figures;
    this.#commandTimeoutMs = commandTimeoutMs ?? defaultCommandTimeoutMs;
    this.#configuration = new NodeConfiguration({ command, run, env: this.#env });
  }

  /** Where LVM's files are to be found by us. */
  get root(): string {
    return rootOf(this.#command);
  }

  /** The disks of the group. Without any, as when not all of them are known, there is no shell. */
  useDisks(disks: Disks): void {
    if (isDeepStrictEqual(disks, this.#disks)) return;
    this.#disks = disks;
    this.close();
  }

  /**
   * Whether the node is configured to tell disks of the space that a removal gives back; our commands leave that to us. Like
   * `execute`, for one caller at a time: a shell that was started knows, and the removal will need one anyway.
   */
  async issuesDiscards(): Promise<boolean> {
    this.#idle?.cancel();
    const shell = await this.#shellFor([]);
    if (shell) this.#rest();
    else await this.#configured();
    return this.#issuesDiscards;
  }

  /** Runs a command and returns its report. One caller at a time; once begun it comes to its end, or to its deadline. */
  async execute(args: readonly string[]): Promise<string> {
    this.#idle?.cancel();
    try {
      const shell = await this.#shellFor(args);
      if (!shell) return await this.#process(args);
      this.#figures.commands.shell++;
      return await shell.run(args, this.#commandTimeoutMs);
    } finally {
      if (this.#shell?.alive) this.#rest();
      else if (this.#shell) this.#lose();
    }
  }

  /** Runs a command that sees the known disks of the group only: disks of others may hang. Undefined if none are known. */
  async surveyDisks(args: readonly string[], signal: AbortSignal): Promise<string | undefined> {
    const { devices } = this.#disks;
    if (devices.length === 0) return undefined;
    return this.#process(args, signal, this.#commandTimeoutMs, settingsForDisks(devices));
  }

  /** Runs a command that sees all that the node's own configuration lets LVM see. */
  async survey(args: readonly string[], signal: AbortSignal): Promise<string> {
    return this.#process(args, signal);
  }

  /** Runs a command that gives volumes their devices, however long their thin pool is checked before. It can be called off. */
  async activate(args: readonly string[], signal: AbortSignal): Promise<void> {
    const deactivated: string[] = [];
    for (;;) {
      try {
        await this.#process(args, signal, activationTimeoutMs);
        return;
      } catch (error) {
        const parts = partsLeftActive(error).filter((part) => !deactivated.includes(part));
        if (parts.length === 0) throw error;
        const isWhat = `${parts.join(', ')} was left active when the check of its thin pool was cut short`;
        this.#log.warn({ err: error }, `${isWhat}; it is deactivated, and the check begins again`);
        await this.#process(['lvchange', '--yes', '--activate', 'n', ...parts], signal); // fails if somebody uses it
        deactivated.push(...parts);
      }
    }
  }

  /** Runs a tool that is installed beside lvm. */
  async tool(name: string, args: readonly string[]): Promise<string> {
    const command = [...this.#command.slice(0, -1), (this.#command.at(-1) ?? '').replace(/lvm$/, name), ...args];
    return (await this.#run(command as [string, ...string[]], { timeoutMs: this.#commandTimeoutMs, env: this.#env }))
      .stdout;
  }

  /** Ends the shell; the next command starts another. */
  close(): void {
    this.#idle?.cancel();
    this.#shell?.close();
    this.#shell = undefined;
  }

  async #process(
    [subcommand = '', ...words]: readonly string[],
    signal?: AbortSignal,
    timeoutMs = this.#commandTimeoutMs,
    settings = processSettings,
  ): Promise<string> {
    this.#figures.commands.exec++;
    const options = { timeoutMs, env: this.#env, ...(signal && { signal }) };
    // LVM takes one --config, and a device class may have its own among its options for lvcreate.
    const config = words.some((word) => /^--config(=|$)/.test(word)) ? [] : ['--config', settings];
    return (await this.#run([...this.#command, subcommand, ...config, ...words], options)).stdout;
  }

  async #shellFor(args: readonly string[]): Promise<LvmShell | undefined> {
    if (this.#shell && !this.#shell.alive) this.#lose(); // it ended while nobody asked it anything
    if (this.#disks.devices.length === 0 || !LvmShell.understands(args)) return undefined;
    if (this.#shell) return this.#shell;
    if (this.#clock.now() < this.#noShellUntilMs) return undefined;
    try {
      this.#shell = await this.#started();
      return this.#shell;
    } catch (error) {
      this.#noShellUntilMs = this.#clock.now() + shellPauseMs;
      this.#figures.shellFailures++;
      this.#log.warn(
        { err: error },
        `the lvm shell cannot be used, commands run as processes for ${shellPauseMs / 1000} s: ${messageOf(error)}`,
      );
      return undefined;
    }
  }

  async #started(): Promise<LvmShell> {
    const systemDir = await writeShellSettings(this.root, await this.#configured(), this.#disks);
    const shell = new LvmShell({ command: this.#command, env: this.#env, systemDir });
    try {
      await shell.run(['version'], shellStartTimeoutMs); // it answers, in the way that we understand
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
    this.#figures.shellRestarts++;
    this.#log.warn('the lvm shell was lost; the next command starts another');
  }
}

/** LVM activates the parts of a thin pool for the check, and while one of them is active it does not activate the pool. */
function partsLeftActive(error: unknown): readonly string[] {
  if (!(error instanceof CommandFailed)) return [];
  const found = error.stderr.matchAll(/prohibited while logical volume (\S+) is active/g);
  return [...new Set([...found].map(([, part = '']) => part))];
}
