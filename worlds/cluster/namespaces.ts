import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { openSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { kill } from '../../src/base/exec.ts';
import { execute, spawn } from '../host/processes.ts';
import { namespaceInit } from '../machine/namespace-init.ts';

/** Reaps orphans in its PID namespace; when it dies, everything in the namespace dies. */
const anchorScript = 'echo ready; sleep infinity & wait';

/**
 * A network, mount and PID namespace for everything in a cluster. Ending the anchor, its first process, ends everything:
 * no process, interface, route or mount can be left behind.
 */
export class Namespaces {
  readonly #anchorPid: number;
  readonly #outlivesUs: boolean;

  private constructor(anchorPid: number, outlivesUs: boolean) {
    this.#anchorPid = anchorPid;
    this.#outlivesUs = outlivesUs;
  }

  /**
   * Creates new namespaces. They end with this process, even if it is killed, unless they are detached; then
   * `Namespaces.end(dir)` ends them.
   */
  static async create(dir: string, { outlivesUs }: { outlivesUs: boolean }): Promise<Namespaces> {
    const log = openSync(join(dir, 'anchor.log'), 'a');
    const unshare = ['unshare', '--net', '--mount', '--pid', '--fork', '--kill-child=KILL', '--mount-proc'];
    // The pid is on disk before there is anything to clean up; `dir` among the arguments distinguishes it from a later
    // process with the same pid.
    const anchor = spawn(
      'sh',
      ['-c', 'echo $$ >"$0/anchor.pid" && exec "$@"', dir].concat(
        outlivesUs ? [] : ['setpriv', '--pdeathsig', 'KILL'],
        unshare,
        ['sh', '-c', anchorScript, dir],
      ),
      { detached: outlivesUs, stdio: ['ignore', 'pipe', log] },
    );
    const ready = once(anchor.stdout as Readable, 'data').then(() => true);
    if (!(await Promise.race([ready, once(anchor, 'exit').then(() => false)]))) {
      throw new Error(`cannot create namespaces: ${await readFile(join(dir, 'anchor.log'), 'utf8')}`);
    }
    anchor.stdout?.destroy();
    anchor.unref();
    return new Namespaces(await onlyChild(anchor.pid ?? 0), outlivesUs);
  }

  /** Ends everything in the namespaces of `dir`, even if the process that created them is gone. */
  static async end(dir: string): Promise<void> {
    const pid = await anchorOf(dir);
    if (pid === undefined) return;
    // The namespace's first process ends last: when its parent ends, every process inside has ended.
    kill((await namespaceInit(pid)) ?? pid);
    while ((await anchorOf(dir)) !== undefined) await new Promise((resolve) => setTimeout(resolve, 20));
  }

  /** The prefix that runs a command inside. */
  get enter(): string[] {
    return ['nsenter', '-t', String(this.#anchorPid), '--net', '--pid', '--mount', `--wdns=${process.cwd()}`, '--'];
  }

  /** Runs a command inside and waits for its end. */
  async run(argv: readonly string[]): Promise<void> {
    const [command = '', ...args] = [...this.enter, ...argv];
    await execute(command, args);
  }

  /** Starts a long-running program inside; its output is appended to the log file. */
  spawn(argv: readonly string[], logFile: string, env: Readonly<Record<string, string>> = {}): ChildProcess {
    const log = openSync(logFile, 'a');
    const [command = '', ...args] = [...this.enter, ...argv];
    const child = spawn(command, args, {
      detached: this.#outlivesUs,
      stdio: ['ignore', log, log],
      env,
    });
    child.unref();
    return child;
  }
}

/** The pid, as seen from here, of the process that `nsenter` or `unshare` forked. */
export async function onlyChild(pid: number): Promise<number> {
  const children = (await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8')).trim().split(' ');
  const [child] = children;
  if (!child) throw new Error(`process ${pid} has no child`);
  return Number(child);
}

async function anchorOf(dir: string): Promise<number | undefined> {
  try {
    const pid = Number(await readFile(join(dir, 'anchor.pid'), 'utf8'));
    const words = (await readFile(`/proc/${pid}/cmdline`, 'utf8')).split('\0');
    return words.includes(dir) ? pid : undefined; // a zombie has no command line either
  } catch (error) {
    if (['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) return undefined;
    throw error;
  }
}
