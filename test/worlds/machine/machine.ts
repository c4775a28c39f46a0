import type { MachineFiles } from './machine-files.ts';

/** How a machine is built. All of it is written below `dir`, so that another process can attach to the machine. */
export interface MachineOptions {
  readonly files: MachineFiles;
  /** Everything the machine keeps is below this directory; it is made if need be and never removed by the machine. */
  readonly dir: string;
  readonly name: string;
  readonly memoryMb: number;
  /** Image files; in the guest they are /dev/ubda, /dev/ubdb, ... in this order. */
  readonly disks: readonly string[];
  /** Host directories that the guest sees and changes live, at the same paths. `dir` is always shared. */
  readonly shares?: readonly string[];
  /** The tap device that becomes the guest's vec0; `address` is with its prefix length: 10.99.0.11/24. */
  readonly tap?: { readonly device: string; readonly address: string; readonly gateway: string };
  /** The core it runs on. A machine spread over cores is 2.5 to 4 times slower, so one is chosen if none is given. */
  readonly cpu?: number;
  /** Environment of the boot script and of every call. */
  readonly env?: Readonly<Record<string, string>>;
  /** A shell script file that the guest runs in the background at each boot; its output goes to `dir`/boot.log. */
  readonly boot?: string;
  /** Words put before the machine's command, such as nsenter's, to run it in namespaces made by someone else. */
  readonly enter?: readonly string[];
  /** Lets the machine outlive this process. Without it, it dies with us, whatever kills us. */
  readonly detached?: boolean;
}

export interface CallOptions {
  /** After this the command and all it started are killed and the call fails; 60 s if not given. */
  readonly timeoutMs?: number;
  /** Called with each piece of output as it comes, in addition to what is returned. */
  readonly onStdout?: (piece: Buffer) => void;
  readonly onStderr?: (piece: Buffer) => void;
}

export interface CallResult {
  readonly stdout: string;
  readonly stderr: string;
  readonly exitCode: number;
  /** Standard output as it was, for what is no text. */
  readonly stdoutBytes: Buffer;
}

/**
 * A User-Mode-Linux machine: a whole kernel with device mapper as an ordinary process, on disks that are image files.
 * It sees the host's files copy-on-write, so a checkout runs inside as it is. It needs no root.
 */
export class Machine {
  readonly name: string;
  readonly dir: string;

  private constructor(name: string, dir: string) {
    this.name = name;
    this.dir = dir;
  }

  /** Builds a machine that is off. */
  static async create(_options: MachineOptions): Promise<Machine> {
    throw new Error('not yet');
  }

  /** The machine that lives in `dir`, running or not, perhaps started by another process. */
  static async attach(_dir: string): Promise<Machine> {
    throw new Error('not yet');
  }

  /** Whether it is on, by what this object saw last. */
  get running(): boolean {
    throw new Error('not yet');
  }

  /** Resolves when the machine is really gone: its disks and its tap are free. Resolved already when it is off. */
  get exited(): Promise<void> {
    throw new Error('not yet');
  }

  /** Boots; resolves when the guest takes calls. The boot script runs from then on. */
  async start(): Promise<void> {
    throw new Error('not yet');
  }

  /** Pulls the plug: what the guest had not yet written to its disks is lost. */
  async powerLoss(): Promise<void> {
    throw new Error('not yet');
  }

  /** Stops the guest's processes, writes everything to the disks and switches off. */
  async powerOff(): Promise<void> {
    throw new Error('not yet');
  }

  /** Runs a shell script in the guest as root. An exit code is a result; only a dead machine or the deadline is an error. */
  async sh(_script: string, _options?: CallOptions): Promise<CallResult> {
    throw new Error('not yet');
  }

  /** Runs one command, each word passed as it is. */
  async run(_argv: readonly string[], _options?: CallOptions): Promise<CallResult> {
    throw new Error('not yet');
  }

  /** The last lines of the guest's kernel log and of its boot script, for error messages. */
  async console(_lines?: number): Promise<string> {
    throw new Error('not yet');
  }
}
