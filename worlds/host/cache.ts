import { createHash } from 'node:crypto';
import { access, mkdir, mkdtemp, readdir, readFile, rename, rm, stat, utimes } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';

/** Where everything is kept that takes long to make: binaries, machine files, images. */
export const cacheDir = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'moorage');

const dayMs = 24 * 60 * 60_000;
/** What nobody has asked for in this time is removed; sooner if there is a newer one of its kind. */
const keptUnusedMs = 30 * dayMs;
const keptSupersededMs = 7 * dayMs;

/**
 * The directory `name` of the cache, made by `make` if it is not there. It appears whole or not at all: a run that is
 * killed half-way leaves nothing that a later run would take for complete, and of two runs at once one wins.
 */
export function cached(name: string, make: (dir: string) => Promise<void>): Promise<string> {
  return new Cache(cacheDir).ensure(name, make);
}

/** Directories that take long to make, each by a name that says all it depends on. What is not used any more goes. */
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
      if (await exists(wanted)) return wanted; // another run was quicker
      throw error;
    }
    await this.#sweep();
    return wanted;
  }

  /** Something new was made: a good moment to see what is old. */
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

  /** At once for whoever looks for it, however long it takes. */
  async #remove(name: string): Promise<void> {
    const away = join(this.#dir, `.${process.pid}-${name}`);
    try {
      await rename(join(this.#dir, name), away);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return; // another run was quicker
      throw error;
    }
    await rm(away, { recursive: true, force: true });
  }
}

/** A short key that changes whenever one of the files or texts does. */
export async function keyOf(files: readonly string[], texts: readonly string[] = []): Promise<string> {
  const hash = createHash('sha256');
  for (const file of files) hash.update(await readFile(file)).update('\0');
  for (const text of texts) hash.update(text).update('\0');
  return hash.digest('hex').slice(0, 12);
}

/** Only what was made for a key is the cache's to remove. */
const keyInName = /^[^.].*[0-9a-f]{12,}/;

function kindOf(name: string): string {
  return name.replace(/[0-9a-f]{12,}/, '');
}

/** False if it is not there. */
async function markUsed(dir: string): Promise<boolean> {
  const now = new Date();
  return utimes(dir, now, now).then(
    () => true,
    () => false,
  );
}

/** Another run may have removed it just now. */
async function usedAtMs(dir: string): Promise<number> {
  return stat(dir).then(
    ({ mtimeMs }) => mtimeMs,
    () => Date.now(),
  );
}

/** What makers left that were killed; a draft begins with the pid of its maker. */
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
