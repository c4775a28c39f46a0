import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { TestContext } from 'node:test';
import { stringify } from 'yaml';
import { scratchFilesystem } from '../native/scratch.ts';

const main = join(import.meta.dirname, '..', '..', 'src', 'main.ts');

/** A real `moorage standalone` with a configuration of its own, for one test. */
export class StandaloneProcess {
  readonly directory: string;
  readonly socket: string;
  readonly #configFile: string;
  readonly #log: string[] = [];
  #child: ChildProcess | undefined;

  private constructor(directory: string) {
    this.directory = directory;
    this.socket = join(directory, 'csi.sock');
    this.#configFile = join(directory, 'lvmd.yaml');
  }

  /** On a directory of files that can be shared by copies. */
  static async onFiles(t: TestContext): Promise<StandaloneProcess> {
    const path = await scratchFilesystem(t, 'xfs', 2048);
    return StandaloneProcess.start(t, [{ name: 'files', type: 'file', path, default: true, 'spare-gb': 0 }]);
  }

  /** Resolves when it serves. */
  static async start(t: TestContext, deviceClasses: readonly object[]): Promise<StandaloneProcess> {
    const directory = await mkdtemp(join(tmpdir(), 'moorage-standalone-'));
    const standalone = new StandaloneProcess(directory);
    const config = {
      'socket-name': join(directory, 'lvmd.sock'),
      'lvm-command-prefix': ['lvm'],
      'device-classes': deviceClasses,
    };
    await writeFile(standalone.#configFile, stringify(config));
    t.after(async () => {
      await standalone.end('SIGTERM');
      await rm(directory, { recursive: true });
    });
    await standalone.restart();
    return standalone;
  }

  /** As after a crash: nothing is remembered but what is on the disks. */
  async restart(): Promise<void> {
    await this.end('SIGKILL');
    const command = [
      main,
      'standalone',
      `--csi-socket=${this.socket}`,
      `--config=${this.#configFile}`,
      '--nodename=here',
    ];
    const env = { ...process.env, NODE_COMPILE_CACHE: join(tmpdir(), 'moorage-compiled') };
    const child = spawn(process.execPath, command, { env, stdio: ['ignore', 'ignore', 'pipe'] });
    this.#child = child;
    const serving = Promise.withResolvers<void>();
    createInterface({ input: child.stderr }).on('line', (line) => {
      this.#log.push(line);
      if (line.includes(this.socket) && line.includes('"msg":"serving"')) serving.resolve();
    });
    child.once('exit', () => serving.reject(new Error(`standalone ended:\n${this.log}`)));
    await serving.promise;
  }

  get pid(): number {
    return this.#child?.pid ?? 0;
  }

  /** Its last lines. */
  get log(): string {
    return this.#log.slice(-40).join('\n');
  }

  async end(signal: NodeJS.Signals): Promise<void> {
    const child = this.#child;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const exit = once(child, 'exit');
    child.kill(signal);
    await exit;
  }
}
