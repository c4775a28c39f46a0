import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { downloadEnvironment } from '../host/environment.ts';
import { run } from '../host/processes.ts';
import { MachineFilesUnavailable } from './errors.ts';

const keyring = '/usr/share/keyrings/debian-archive-keyring.gpg';
const downloadTimeoutMs = 10 * 60_000;
const unpackTimeoutMs = 60_000;

/**
 * Debian packages, downloaded and unpacked but not installed. Each release has package lists of its own below `dir`:
 * the host's stay as they are, and no root is needed.
 */
export class DebianPackages {
  readonly #dir: string;
  readonly #options: readonly string[];

  private constructor(dir: string, options: readonly string[]) {
    this.#dir = dir;
    this.#options = options;
  }

  /** The host's own release, from where the host itself takes it. */
  static async ofHost(dir: string): Promise<DebianPackages> {
    return DebianPackages.#fetchLists(join(dir, 'host'), []);
  }

  /** Another release, from the mirror that the host uses. */
  async ofRelease(release: string): Promise<DebianPackages> {
    const dir = join(this.#dir, '..', release);
    const sources = join(dir, 'sources.list');
    await mkdir(dir, { recursive: true });
    await writeFile(sources, `deb [signed-by=${keyring}] ${await this.#mirror()} ${release} main\n`);
    return DebianPackages.#fetchLists(dir, [`Dir::Etc::sourcelist=${sources}`, 'Dir::Etc::sourceparts=/dev/null']);
  }

  static async #fetchLists(dir: string, settings: readonly string[]): Promise<DebianPackages> {
    await mkdir(join(dir, 'lists', 'partial'), { recursive: true });
    await mkdir(join(dir, 'cache', 'archives', 'partial'), { recursive: true });
    const options = [
      ...settings,
      `Dir::State::lists=${join(dir, 'lists')}`,
      `Dir::Cache=${join(dir, 'cache')}`,
      'Acquire::Languages=none',
      'Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false',
      'APT::Sandbox::User=root',
      'Debug::NoLocking=1',
    ].flatMap((setting) => ['-o', setting]);
    const packages = new DebianPackages(dir, options);
    await packages.#apt(['update', '-qq']); // a source that does not answer is no error yet: another may have it all
    return packages;
  }

  /** Those of the named packages, and of all they depend on, that the host has not installed. */
  async missing(names: readonly string[]): Promise<string[]> {
    const plan = await this.#apt(['install', '--simulate', '-qq', '--no-install-recommends', ...names]);
    return [...plan.matchAll(/^Inst (\S+)[^(]*\((\S+) /gm)].map(([, name, version]) => `${name}=${version}`);
  }

  /** Unpacks packages into a tree, documentation left out. */
  async unpack(packages: readonly string[], tree: string): Promise<void> {
    if (packages.length === 0) return;
    const downloads = join(this.#dir, 'downloads');
    await mkdir(downloads);
    await this.#apt(['download', '-qq', ...packages], downloads);
    for (const file of await readdir(downloads)) await unpackArchive(join(downloads, file), tree);
    await rm(downloads, { recursive: true });
  }

  async #mirror(): Promise<string> {
    const codename = /^VERSION_CODENAME=(\S+)$/m.exec(await readFile('/etc/os-release', 'utf8'))?.[1];
    const found = await this.#apt([
      'indextargets',
      '--format',
      '$(SITE)',
      'Created-By: Packages',
      `Codename: ${codename}`,
    ]);
    const [mirror] = found.split('\n');
    if (!mirror) throw new MachineFilesUnavailable(`apt knows no mirror for ${codename}; add one to its sources`);
    return mirror;
  }

  async #apt(words: readonly string[], cwd = this.#dir): Promise<string> {
    const { stdout } = await run(['apt-get', ...this.#options, ...words], {
      cwd,
      env: downloadEnvironment(),
      timeoutMs: downloadTimeoutMs,
    });
    return stdout;
  }
}

/** dpkg-deb's own unpacking would replace the tree's links (lib -> usr/lib) by directories. */
async function unpackArchive(archive: string, tree: string): Promise<void> {
  const left = ['doc', 'man', 'locale'].map((name) => `--exclude=./usr/share/${name}`).join(' ');
  const script = `dpkg-deb --fsys-tarfile "$1" | tar -C "$2" -x --no-same-owner --keep-directory-symlink ${left}`;
  await run(['sh', '-c', script, 'unpack', archive, tree], { timeoutMs: unpackTimeoutMs });
}
