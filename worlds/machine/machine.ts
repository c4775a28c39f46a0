import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, watch } from 'node:fs';
import { mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { InvalidInput, messageOf } from '../../src/base/errors.ts';
import { CommandFailed, kill } from '../../src/base/exec.ts';
import { run, spawn } from '../host/processes.ts';
import { chooseCore } from './choose-core.ts';
import { MachineDidNotBoot, MachineOff } from './errors.ts';
import { GuestCalls } from './guest-calls.ts';
import { guestDir, machineCommand } from './machine-command.ts';
import type { MachineFiles } from './machine-files.ts';
import { namespaceInit } from './namespace-init.ts';
import { assignments, quote } from './quote.ts';

const quickMs = 60_000;
/** How long a machine may take to end when its owner was killed. */
const dyingSeconds = 5;
const bootTimeoutMs = 180_000;
const powerOffTimeoutMs = 120_000;

/** How a machine is built. It is saved below `dir`, so that another process can attach to the machine. */
export interface MachineOptions {
  readonly files: MachineFiles;
  /** The directory of all state of the machine; created if necessary, and never removed by the machine. */
  readonly dir: string;
  readonly name: string;
  readonly memoryMb: number;
  /** Image files; in the guest they are /dev/ubda, /dev/ubdb, ... in this order. */
  readonly disks: readonly string[];
  /** Boots Debian's systemd, with udev. The guest's writes to its root go to a disk and are still there after a reboot. */
  readonly systemd?: SystemdOptions;
  /** Host directories that the guest sees and changes live, at the same paths. `dir` is always shared. */
  readonly shares?: readonly string[];
  /** The tap device that becomes the guest's vec0; `address` includes the prefix length: 10.99.0.11/24. */
  readonly tap?: { readonly device: string; readonly address: string; readonly gateway: string };
  /** Machines with different numbers run on different cores, if there are enough. */
  readonly cpu?: number;
  /** Environment of the boot script and of every call. */
  readonly env?: Readonly<Record<string, string>>;
  /** A shell script file that the guest runs in the background at each boot; its output goes to `dir`/boot.log. */
  readonly boot?: string;
  /** A prefix of the machine's command, such as nsenter, to run it in existing namespaces. */
  readonly enter?: readonly string[];
  /** Lets the machine outlive this process. Otherwise it dies with this process, whatever kills that. */
  readonly detached?: boolean;
}

export interface SystemdOptions {
  /** From `ensureSystemdTree`. */
  readonly tree: string;
  /** An image file with an ext4 filesystem, empty at first. */
  readonly rootDisk: string;
}

export interface CallOptions {
  /** After this time the command and its processes are killed and the call fails; three minutes by default. */
  readonly timeoutMs?: number;
  /** Called with each piece of output as it arrives, in addition to what is returned. */
  readonly onStdout?: (piece: Buffer) => void;
  readonly onStderr?: (piece: Buffer) => void;
}

export interface CallResult {
  readonly stdout: string;
  readonly stderr: string;
  readonly exitCode: number;
  /** Raw standard output, for binary data. */
  readonly stdoutBytes: Buffer;
}

/** One run of the machine: from its start until its last process is gone. */
interface Session {
  /** The first process of the machine's command. */
  readonly pid: number;
  /** Our child process that ends with the machine: its first process, or one that waits for its lock. */
  readonly child: ChildProcess;
  readonly gone: Promise<void>;
  readonly goneSignal: AbortSignal;
}

/**
 * A User-Mode-Linux machine: a complete kernel with device mapper as an ordinary process, with image files as disks.
 * It sees the host's files copy-on-write, so a checkout runs inside unchanged. It needs no root.
 */
export class Machine {
  readonly name: string;
  readonly dir: string;
  readonly #options: MachineOptions;
  readonly #calls: GuestCalls;
  #session: Session | undefined;

  private constructor(options: MachineOptions) {
    this.name = options.name;
    this.dir = options.dir;
    this.#options = options;
    this.#calls = new GuestCalls(options.name, options.dir);
  }

  /** Builds a machine that is off. */
  static async create(options: MachineOptions): Promise<Machine> {
    const { dir, systemd } = options;
    const machine = new Machine(options);
    const trees = [guestDir, options.files.toolsDir, ...(systemd ? [systemd.tree, systemd.rootDisk] : [])];
    refuseUnspeakable([dir, ...trees, ...options.disks, ...(options.shares ?? [])]);
    await mkdir(join(dir, 'calls'), { recursive: true });
    if (await machine.#lockIsHeld(dyingSeconds)) {
      throw new InvalidInput(`a machine is already running in ${dir}; attach to it and power it off first`);
    }
    await writeFile(join(dir, 'machine.json'), JSON.stringify(options));
    await writeFile(
      join(dir, 'guest.env'),
      assignments({
        name: options.name,
        guest: guestDir,
        tools: options.files.toolsDir,
        systemd: systemd?.tree ?? '',
        root_disk: `/dev/ubd${String.fromCharCode('a'.charCodeAt(0) + options.disks.length)}`, // after the others
        shares: (options.shares ?? []).join(' '),
        address: options.tap?.address ?? '',
        gateway: options.tap?.gateway ?? '',
        boot: options.boot ?? '',
      }),
    );
    const env = { ...(!systemd && { DM_DISABLE_UDEV: '1' }), HOME: '/root', ...options.env };
    await writeFile(join(dir, 'environment'), assignments(env));
    const doorbell = join(dir, 'doorbell');
    await rm(doorbell, { force: true });
    await run(['mkfifo', doorbell], { timeoutMs: quickMs });
    return machine;
  }

  /** The machine in `dir`, running or not, perhaps started by another process. */
  static async attach(dir: string): Promise<Machine> {
    const machine = new Machine(JSON.parse(await readFile(join(dir, 'machine.json'), 'utf8')) as MachineOptions);
    if (await machine.#lockIsHeld(0)) {
      const pid = Number(await readFile(join(dir, 'pid'), 'utf8'));
      const waiting = machine.#waitForLock();
      machine.#begin(pid, waiting, once(waiting, 'exit'));
    }
    return machine;
  }

  /** Whether it is on, as far as this object knows. */
  get running(): boolean {
    return this.#session !== undefined;
  }

  /** Resolves when the machine is gone, and its disks and its tap are free. Already resolved when it is off. */
  get exited(): Promise<void> {
    return this.#session ? this.#waitUntilGone(this.#session) : Promise.resolve();
  }

  /** Boots; resolves when the guest accepts calls. The boot script runs from then on. */
  async start(): Promise<void> {
    if (this.#session) throw new InvalidInput(`machine ${this.name} is already on; power it off first`);
    // Files of an earlier boot: its state would mislead the new kernel, and its calls are lost.
    await Promise.all(
      ['ready', 'uml', 'calls', 'boot.log'].map((name) => rm(join(this.dir, name), { recursive: true, force: true })),
    );
    await mkdir(join(this.dir, 'calls'));

    const ready = Promise.withResolvers<void>();
    const watcher = watch(this.dir, (_event, file) => file === 'ready' && ready.resolve());
    watcher.on('error', ready.reject);
    const deadline = setTimeout(() => ready.reject(new Error(`not ready within ${bootTimeoutMs} ms`)), bootTimeoutMs);
    try {
      const { goneSignal } = await this.#spawn();
      goneSignal.addEventListener('abort', () => ready.reject(new Error('it powered off by itself')));
      await ready.promise;
    } catch (error) {
      await this.powerLoss();
      throw new MachineDidNotBoot(this.name, messageOf(error), await this.console());
    } finally {
      clearTimeout(deadline);
      watcher.close();
    }
  }

  /** Cuts the power: what the guest has not yet written to its disks is lost. */
  async powerLoss(): Promise<void> {
    const session = this.#session;
    if (!session) return;
    // The namespace's first process ends last: when its parents end, every process of the machine has ended.
    kill((await namespaceInit(session.pid)) ?? session.pid);
    await this.#waitUntilGone(session);
  }

  /** Stops the guest's processes, writes everything to the disks and switches off. */
  async powerOff(): Promise<void> {
    const session = this.#session;
    if (!session) return;
    this.#calls.ring('off');
    const deadline = setTimeout(() => void this.powerLoss(), powerOffTimeoutMs);
    await this.#waitUntilGone(session);
    clearTimeout(deadline);
  }

  /** Runs a shell script in the guest as root. An exit code is a result; only a dead machine or the deadline is an error. */
  async sh(script: string, options: CallOptions = {}): Promise<CallResult> {
    const session = this.#session;
    if (!session) throw new MachineOff(this.name, script, await this.console());
    try {
      return await this.#calls.run(script, options, session.goneSignal);
    } catch (error) {
      // The guest no longer listens, or stopped just now.
      const isDeaf = ['ENXIO', 'EPIPE'].includes((error as NodeJS.ErrnoException).code ?? '');
      if (session.goneSignal.aborted || isDeaf) {
        throw new MachineOff(this.name, script, await this.console());
      }
      throw error;
    }
  }

  /** Runs one command, with unchanged arguments. */
  async run(argv: readonly string[], options: CallOptions = {}): Promise<CallResult> {
    return this.sh(`exec ${argv.map(quote).join(' ')}`, options);
  }

  /** The last lines of the guest's kernel log and of its boot script, for error messages. */
  async console(lines = 40): Promise<string> {
    const logs = await Promise.all(
      ['console.log', 'boot.log'].map(async (name) => {
        const path = join(this.dir, name);
        const exists = await stat(path).catch(() => undefined);
        if (!exists) return '';
        const text = (await readFile(path, 'utf8')).trimEnd();
        return text && `${name}: ${text.split('\n').slice(-lines).join(`\n${name}: `)}`;
      }),
    );
    return logs.filter(Boolean).join('\n');
  }

  async #spawn(): Promise<Session> {
    const [program = '', ...words] = machineCommand(this.#options, await chooseCore(this.#options.cpu ?? 0));
    const log = openSync(join(this.dir, 'console.log'), 'w');
    const doorbell = openSync(join(this.dir, 'doorbell'), 'r+'); // for writing too, so that the guest never reads end of file
    let child: ChildProcess;
    try {
      // Its own session: Ctrl-C in a terminal is for the process that runs the machine, not for the machine.
      child = spawn(program, words, { stdio: ['ignore', log, log, doorbell], detached: true });
      await once(child, 'spawn');
    } finally {
      closeSync(log);
      closeSync(doorbell);
    }
    await writeFile(join(this.dir, 'pid'), String(child.pid));
    const exit = once(child, 'exit');
    return this.#begin(
      child.pid as number,
      child,
      exit.then(() => once(this.#waitForLock(), 'exit')),
    );
  }

  #begin(pid: number, child: ChildProcess, ended: Promise<unknown>): Session {
    const controller = new AbortController();
    const gone = ended.then(() => {
      this.#session = undefined;
      controller.abort();
    });
    this.#session = { pid, child, gone, goneSignal: controller.signal };
    child.unref(); // a running machine does not keep this process alive
    return this.#session;
  }

  async #waitUntilGone(session: Session): Promise<void> {
    session.child.ref();
    await session.gone;
  }

  /** Whether the lock is still held after waiting this long. */
  async #lockIsHeld(waitSeconds: number): Promise<boolean> {
    const conflict = 75;
    const lock = join(this.dir, 'lock');
    try {
      await run(['flock', '--timeout', String(waitSeconds), '--conflict-exit-code', String(conflict), lock, 'true'], {
        timeoutMs: quickMs,
      });
      return false;
    } catch (error) {
      if (error instanceof CommandFailed && error.exitCode === conflict) return true;
      throw error;
    }
  }

  /** Every process of a machine holds its lock, so whoever gets the lock knows that all of them are gone. */
  #waitForLock(): ChildProcess {
    const words = ['--pdeathsig', 'KILL', 'flock', join(this.dir, 'lock'), 'true'];
    return spawn('setpriv', words, { stdio: 'ignore' });
  }
}

/** The kernel's command line and mount options support no quoting. */
function refuseUnspeakable(paths: readonly string[]): void {
  const bad = paths.find((path) => /[\s,"]/.test(path));
  if (bad)
    throw new InvalidInput(
      `a machine cannot use ${bad}: the path contains a space, a comma or a quote; use another directory`,
    );
}
