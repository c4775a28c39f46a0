import { randomUUID } from 'node:crypto';
import { mkdir, readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { replaceFile } from '../../base/durable.ts';
import { messageOf } from '../../base/errors.ts';
import { PoolMissing } from '../errors.ts';

const markerName = '.moorage-pool';

/**
 * Proves that a directory is the one that the pool used before, and not the empty mount point of an unmounted disk. The
 * marker in the directory and the record on the node's own disk hold the same id. The marker is written first; if a crash
 * leaves it without a record, the next start writes the record.
 */
export class PoolMarker {
  readonly #directory: string;
  readonly #marker: string;
  readonly #record: string;
  #id: string | undefined;
  #problem: string | undefined;

  constructor(directory: string, stateDirectory: string) {
    this.#directory = directory;
    this.#marker = join(directory, markerName);
    this.#record = join(stateDirectory, 'file-pools', encodeURIComponent(resolve(directory)));
  }

  /** Why the directory cannot be used, as of the last check; undefined if it can. */
  get problem(): string | undefined {
    return this.#problem;
  }

  /** To be called before anything else touches the directory. Marks a directory that has neither marker nor record. */
  async prove(): Promise<void> {
    const [found, recorded] = [await read(this.#marker), await read(this.#record)];
    if (recorded !== undefined && found !== recorded) throw this.#missing(found);
    this.#id = found ?? randomUUID();
    if (found === undefined) await replaceFile(this.#marker, `${this.#id}\n`);
    if (recorded === undefined) await this.#remember(this.#id);
  }

  /** To be called before each change, as a disk can be unmounted while nothing on it is in use. */
  async mustBeThere(): Promise<void> {
    try {
      const found = await read(this.#marker);
      if (found === undefined || found !== this.#id) throw this.#missing(found);
      this.#problem = undefined;
    } catch (error) {
      this.#problem = messageOf(error);
      throw error;
    }
  }

  async #remember(id: string): Promise<void> {
    try {
      await mkdir(join(this.#record, '..'), { recursive: true, mode: 0o700 });
      await replaceFile(this.#record, `${id}\n`);
    } catch (cause) {
      throw new PoolMissing(
        `cannot use directory ${this.#directory}, as ${this.#record} cannot be written (${messageOf(cause)}) and a reboot ` +
          'without its disk would go unnoticed; set --state-dir to a directory on a disk of the node',
        { cause },
      );
    }
  }

  #missing(found: string | undefined): PoolMissing {
    const what = found === undefined ? `${this.#marker} is missing` : `${this.#marker} belongs to another pool`;
    return new PoolMissing(
      `directory ${this.#directory} is not the one that held the volumes: ${what}; mount its disk; if the disk is ` +
        `lost, docs/configuration.md says what to do with ${this.#record}`,
    );
  }
}

async function read(path: string): Promise<string | undefined> {
  try {
    return (await readFile(path, 'utf8')).trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}
