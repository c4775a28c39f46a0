import { lstat, readdir, readFile, readlink } from 'node:fs/promises';
import { basename, dirname, join, normalize } from 'node:path';
import type { DebianPackage } from './debian.ts';
import { readDependencies } from './elf.ts';
import type { TreeEntry } from './tar.ts';

const programDirs = ['usr/bin', 'usr/sbin'];

interface Source {
  readonly file: string;
  readonly from: DebianPackage;
}

/** The files of unpacked packages, and those taken from them so far, with everything they need. */
export class DebianFiles {
  readonly #sources: ReadonlyMap<string, Source>;
  readonly #taken = new Map<string, TreeEntry>();
  readonly #packages = new Set<DebianPackage>();

  private constructor(sources: ReadonlyMap<string, Source>) {
    this.#sources = sources;
  }

  static async of(packages: readonly DebianPackage[]): Promise<DebianFiles> {
    const sources = new Map<string, Source>();
    for (const from of packages) {
      for (const entry of await readdir(from.dir, { recursive: true, withFileTypes: true })) {
        if (entry.isDirectory()) continue;
        const file = join(entry.parentPath, entry.name);
        sources.set(mergedPath(file.slice(from.dir.length + 1)), { file, from });
      }
    }
    return new DebianFiles(sources);
  }

  /** The files taken, and for each of their packages its licence and its dpkg status. */
  async entries(): Promise<TreeEntry[]> {
    const notices: TreeEntry[] = [];
    for (const { name, control } of this.#packages) {
      // Where vulnerability scanners look if there is no dpkg.
      const status = `var/lib/dpkg/status.d/${name}`;
      notices.push({ path: status, kind: 'file', content: Buffer.from(control), mode: 0o644 });
      notices.push(await this.#licence(name));
    }
    return [...this.#taken.values(), ...notices];
  }

  /** The packages of the files taken. */
  get packages(): readonly DebianPackage[] {
    return [...this.#packages].sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  async takeProgram(name: string): Promise<void> {
    const path = programDirs.map((dir) => `${dir}/${name}`).find((candidate) => this.#sources.has(candidate));
    if (!path) throw new Error(`no package has program ${name}; add its package to scripts/image/contents.ts`);
    await this.take(path);
  }

  async take(path: string): Promise<void> {
    if (this.#taken.has(path)) return;
    const source = this.#sources.get(path);
    if (!source) throw new Error(`no package has ${path}; add its package to scripts/image/contents.ts`);
    const entry = await readEntry(path, source.file);
    this.#taken.set(path, entry);
    this.#packages.add(source.from);
    if (entry.kind === 'link') await this.take(linkTarget(path, entry.target));
    if (entry.kind === 'file') await this.addDependencies(entry.content);
  }

  /** The dependencies of a program, which may be in other packages. */
  async addDependencies(program: Buffer): Promise<void> {
    const dependencies = readDependencies(program);
    if (dependencies?.interpreter) await this.take(mergedPath(dependencies.interpreter.slice(1)));
    for (const library of dependencies?.libraries ?? []) await this.take(this.#library(library));
  }

  #library(name: string): string {
    for (const path of this.#sources.keys()) {
      if (basename(path) === name && /^usr\/lib(64)?(\/[^/]+-linux-gnu)?$/.test(dirname(path))) return path;
    }
    throw new Error(`no package has library ${name}; add its package to scripts/image/contents.ts`);
  }

  /** Packages of one source share their documents: one has them, the others link to its directory. */
  async #licence(name: string): Promise<TreeEntry> {
    const dir = `usr/share/doc/${name}`;
    const link = this.#sources.get(dir);
    const home = link ? linkTarget(dir, await readlink(link.file)) : dir;
    const licence = this.#sources.get(`${home}/copyright`);
    if (!licence) throw new Error(`package ${name} has no copyright file; check its licence`);
    return readEntry(`${dir}/copyright`, licence.file);
  }
}

/** Packages still use /bin, /sbin and /lib, which are links to directories below /usr. */
function mergedPath(path: string): string {
  return path.replace(/^(bin|sbin|lib|lib64)\//, 'usr/$1/');
}

function linkTarget(path: string, target: string): string {
  return mergedPath(target.startsWith('/') ? target.slice(1) : normalize(join(dirname(path), target)));
}

/** Modes are those of the package, but without setuid and setgid. */
async function readEntry(path: string, file: string): Promise<TreeEntry> {
  const found = await lstat(file);
  if (found.isSymbolicLink()) return { path, kind: 'link', target: await readlink(file) };
  return { path, kind: 'file', content: await readFile(file), mode: found.mode & 0o755 };
}
