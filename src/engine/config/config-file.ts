import { readFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Clock } from '../../base/clock.ts';
import { DirectoryWatch } from '../../base/directory-watch.ts';
import { MoorageError, messageOf } from '../../base/errors.ts';
import type { Log } from '../../base/log.ts';
import type { StorageConfig } from './device-classes.ts';
import { parseStorageConfig } from './device-classes-yaml.ts';

export interface ConfigFileOptions {
  readonly path: string;
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * The file with the storage configuration, watched for changes. An invalid change is refused, and the previous
 * configuration stays in use.
 */
export class ConfigFile {
  readonly #path: string;
  readonly #log: Log;
  readonly #watch: DirectoryWatch;
  #text = '';
  #onChange: ((config: StorageConfig) => void) | undefined;
  /** Why the current file is not used; undefined while it is. */
  problem: unknown;

  private constructor({ path, clock, log }: ConfigFileOptions) {
    this.#path = path;
    this.#log = log;
    this.#watch = new DirectoryWatch({ directory: dirname(path), clock, log, read: () => this.#read() });
  }

  /** The first configuration must be valid, as there is no previous one to keep. */
  static async open(options: ConfigFileOptions): Promise<{ file: ConfigFile; config: StorageConfig }> {
    const text = await readFile(options.path, 'utf8').catch((error: unknown) => {
      throw new NoConfiguration(options.path, error);
    });
    const file = new ConfigFile(options);
    try {
      file.#text = text;
      return { file, config: parseStorageConfig(file.#text) };
    } catch (error) {
      file.close();
      throw error;
    }
  }

  /** Called with each valid configuration that differs from the previous one, including changes since `open`. */
  onChange(listener: (config: StorageConfig) => void): void {
    this.#onChange = listener;
    this.#watch.readSoon();
  }

  close(): void {
    this.#watch.close();
  }

  async #read(): Promise<void> {
    if (!this.#onChange) return; // read once there is a listener
    try {
      const text = await readFile(this.#path, 'utf8');
      if (text === this.#text && this.problem === undefined) return;
      const config = parseStorageConfig(text);
      const isNew = text !== this.#text;
      this.#text = text;
      this.problem = undefined;
      if (isNew) this.#onChange(config);
    } catch (error) {
      this.problem = error;
      this.#log.error(
        { err: error, path: this.#path },
        `cannot apply ${this.#path}, the previous configuration stays in use: ${messageOf(error)}`,
      );
    }
  }
}

export class NoConfiguration extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(path: string, error: unknown) {
    super(`cannot read configuration ${path}: ${messageOf(error)}; create it, or pass another path with --config`, {
      cause: error,
    });
  }
}
