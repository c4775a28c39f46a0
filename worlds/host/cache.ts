import { createHash } from 'node:crypto';
import { access, mkdir, mkdtemp, readdir, readFile, rename, rm, stat, utimes } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';

/** The directory of everything that takes long to build: binaries, machine files, images. */
export const cacheDir = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'moorage');

const dayMs = 24 * 60 * 60_000;
/** Entries unused for this time are removed; sooner if there is a newer one of the same kind. */
const keptUnusedMs = 30 * dayMs;
const keptSupersededMs = 7 * dayMs;

/**
 * The directory `name` of the cache, created by `make` if missing. It appears complete or not at all: a killed run leaves
 * nothing that a later one would take for complete, and of two runs at once one wins.
 */
export function cached(name: string, make: (dir: string) => Promise<void>): Promise<string> {
  return new Cache(cacheDir).ensure(name, make);
}

/** Directories that take long to build, named after everything they depend on. Unused ones are removed. */
export class Cache {
  readonly #dir: string;

  constructor(dir: string) {
    this.#dir = dir;
  }

  async ensure(name: string, make: (dir: string) => Promise<void>): Promise<string> {
    const wanted = join(this.#dir, name);
    if (await markUsed(wanted)) return wanted;
    await mkdir(this.#dir, { recursive: true });
    const draft = await mkdtemp(join(this.#dir, `.${process.pid}-`));
    try {
      await make(draft);
      await rename(draft, wanted);
    } catch (error) {
      await rm(draft, { recursive: true, force: true });
      if (await exists(wanted)) return wanted; // another run was faster
      throw error;
    }
    await this.#sweep();
    return wanted;
  }

  /** A new entry is a good moment to remove old ones. */
  async #sweep(): Promise<void> {
    const names = await readdir(this.#dir);
    await removeAbandonedDrafts(this.#dir, names);
    const entries = await Promise.all(
      names
        .filter((name) => keyInName.test(name))
        .map(async (name) => ({ name, usedAtMs: await usedAtMs(join(this.#dir, name)) })),
    );
    for (const { name, usedAtMs } of entries) {
      const isSuperseded = entries.some((other) => kindOf(other.name) === kindOf(name) && other.usedAtMs > usedAtMs);
      if (Date.now() - usedAtMs > (isSuperseded ? keptSupersededMs : keptUnusedMs)) await this.#remove(name);
    }
  }

  /** Renames first, so that it disappears at once however long the removal takes. */
  async #remove(name: string): Promise<void> {
    const away = join(this.#dir, `.${process.pid}-${name}`);
    try {
      await rename(join(this.#dir, name), away);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return; // another run was faster
      throw error;
    }
    await rm(away, { recursive: true, force: true });
  }
}

/** A short key that changes with any of the files or texts. */
export async function keyOf(files: readonly string[], texts: readonly string[] = []): Promise<string> {
  const hash = createHash('sha256');
  for (const file of files) hash.update(await readFile(file)).update('\0');
  for (const text of texts) hash.update(text).update('\0');
  return hash.digest('hex').slice(0, 12);
}

/** The cache removes only directories that were created for a key. */
const keyInName = /^[^.].*[0-9a-f]{12,}/;

function kindOf(name: string): string {
  return name.replace(/[0-9a-f]{12,}/, '');
}

/** False if it is missing. */
async function markUsed(dir: string): Promise<boolean> {
  const now = new Date();
  return utimes(dir, now, now).then(
    () => true,
    () => false,
  );
}

/** Another run may just have removed it. */
async function usedAtMs(dir: string): Promise<number> {
  return stat(dir).then(
    ({ mtimeMs }) => mtimeMs,
    () => Date.now(),
  );
}

/** Removes drafts of killed processes; the name of a draft starts with the pid of its process. */
async function removeAbandonedDrafts(dir: string, names: readonly string[]): Promise<void> {
  for (const name of names) {
    const maker = /^\.(\d+)-/.exec(name)?.[1];
    if (maker && !(await exists(`/proc/${maker}`))) await rm(join(dir, name), { recursive: true, force: true });
  }
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
