import { readdir, stat } from 'node:fs/promises';
import { isAbsolute, join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { Command, Run } from '../../base/exec.ts';
import { mergedConfiguration, rootOf } from './shell-settings.ts';

export interface NodeConfigurationOptions {
  /** How to call `lvm` itself, for instance through nsenter. */
  readonly command: Command;
  readonly run: Run;
  readonly env: NodeJS.ProcessEnv;
}

const defaultSystemDir = '/etc/lvm';
const timeoutMs = 10_000;

/**
 * The node's own LVM configuration merged with ours. LVM does the merge, which takes a process, so it runs again only
 * when a configuration file, or LVM itself, changed.
 */
export class NodeConfiguration {
  readonly #options: NodeConfigurationOptions;
  #known: { readonly files: readonly string[]; readonly merged: string } | undefined;

  constructor(options: NodeConfigurationOptions) {
    this.#options = options;
  }

  async merged(): Promise<string> {
    const { command, run, env } = this.#options;
    const files = await this.#files(); // before LVM reads them: a later change is seen the next time
    if (this.#known && isDeepStrictEqual(files, this.#known.files)) return this.#known.merged;
    const { stdout } = await run([...command, ...mergedConfiguration], { timeoutMs, env });
    this.#known = files && { files, merged: stdout };
    return stdout;
  }

  /** Undefined if the configuration files are not found: LVM may have them elsewhere, and is then run each time. */
  async #files(): Promise<readonly string[] | undefined> {
    const { command, env } = this.#options;
    const root = rootOf(command);
    const programs = command.slice(-1).filter(isAbsolute);
    const dir = env['LVM_SYSTEM_DIR'] ?? defaultSystemDir;
    try {
      const names = (await readdir(`${root}${dir}`)).filter((name) => name.endsWith('.conf')).sort();
      if (!names.includes('lvm.conf')) return undefined;
      const paths = [...programs, ...names.map((name) => join(dir, name))];
      return await Promise.all(paths.map((path) => identityOf(`${root}${path}`)));
    } catch {
      return undefined;
    }
  }
}

async function identityOf(path: string): Promise<string> {
  const { dev, ino, size, ctimeNs } = await stat(path, { bigint: true });
  return `${path} ${dev} ${ino} ${size} ${ctimeNs}`;
}
