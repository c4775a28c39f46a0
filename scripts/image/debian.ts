import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { cached, keyOf } from '../../worlds/host/cache.ts';
import { downloadEnvironment } from '../../worlds/host/environment.ts';
import { run } from '../../worlds/host/processes.ts';
import type { Say } from '../../worlds/host/progress.ts';

/**
 * The oldest release with everything we need: older kernels can still mount what its mkfs creates.
 * Its updates come from the security suite.
 */
export const release = { codename: 'bookworm', version: '12' };

const keyring = '/usr/share/keyrings/debian-archive-keyring.gpg';
const downloadTimeoutMs = 10 * 60_000;
const unpackTimeoutMs = 60_000;

/** A downloaded package, with its files unpacked in its own directory. */
export interface DebianPackage {
  readonly name: string;
  readonly version: string;
  /** Digest of the downloaded archive. */
  readonly sha256: string;
  /** The control fields of the package, as dpkg keeps them in its status file. */
  readonly control: string;
  readonly dir: string;
}

/** The newest versions of the release, or those downloaded before, which need no network. */
export type Versions = 'newest' | 'fetched before';

/** The named packages and all their dependencies, whatever the host has installed. */
export async function fetchPackages(names: readonly string[], versions: Versions, say: Say): Promise<DebianPackage[]> {
  const dir = await (versions === 'newest'
    ? withApt(async (apt) => fetchPlanned(await apt.plan(names), apt, say))
    : cached(await cacheName(names), (draft) => withApt(async (apt) => apt.fetch(await apt.plan(names), draft, say))));
  const packages = JSON.parse(await readFile(join(dir, 'packages.json'), 'utf8')) as Omit<DebianPackage, 'dir'>[];
  return packages.map((one) => ({ ...one, dir: join(dir, one.name) }));
}

async function fetchPlanned(plan: readonly string[], apt: Apt, say: Say): Promise<string> {
  return cached(await cacheName(plan), (draft) => apt.fetch(plan, draft, say));
}

async function cacheName(what: readonly string[]): Promise<string> {
  return `image-packages-${await keyOf([import.meta.filename], what)}`;
}

interface Apt {
  /** The packages to download, each with its version: `libc6=2.36-9`. */
  plan(names: readonly string[]): Promise<string[]>;
  /** Downloads and unpacks them into a directory. */
  fetch(plan: readonly string[], into: string, say: Say): Promise<void>;
}

async function withApt<T>(work: (apt: Apt) => Promise<T>): Promise<T> {
  const dir = await mkdtemp(join(tmpdir(), 'moorage-apt-'));
  try {
    const apt = await openApt(dir);
    return await work({
      async plan(names) {
        const said = await apt('install', '--simulate', '-qq', '--no-install-recommends', ...names);
        return [...said.matchAll(/^Inst (\S+)[^(]*\((\S+) /gm)].map(([, name, version]) => `${name}=${version}`);
      },
      async fetch(plan, into, say) {
        say(`fetching ${plan.length} packages`);
        const downloads = join(dir, 'downloads');
        await mkdir(downloads);
        await apt('download', '-qq', ...plan);
        const packages = [];
        for (const file of (await readdir(downloads)).sort()) packages.push(await unpack(join(downloads, file), into));
        await writeFile(join(into, 'packages.json'), JSON.stringify(packages));
      },
    });
  } finally {
    await rm(dir, { recursive: true });
  }
}

/** apt-get with its own lists and status in `dir`: nothing counts as installed, and those of the host do not change. */
async function openApt(dir: string): Promise<(...words: string[]) => Promise<string>> {
  for (const name of ['lists/partial', 'cache/archives/partial']) await mkdir(join(dir, name), { recursive: true });
  const sources = join(dir, 'sources.list');
  const status = join(dir, 'status');
  await writeFile(sources, await packageSources());
  await writeFile(status, '');
  const options = [
    `Dir::Etc::sourcelist=${sources}`,
    'Dir::Etc::sourceparts=/dev/null',
    `Dir::State::lists=${join(dir, 'lists')}`,
    `Dir::State::status=${status}`,
    `Dir::Cache=${join(dir, 'cache')}`,
    'Acquire::Languages=none',
    'APT::Sandbox::User=root',
    'Debug::NoLocking=1',
  ].flatMap((setting) => ['-o', setting]);
  const apt = async (...words: string[]) => {
    const cwd = words[0] === 'download' ? join(dir, 'downloads') : dir; // it downloads into its working directory
    return (
      await run(['apt-get', ...options, ...words], { cwd, env: downloadEnvironment(), timeoutMs: downloadTimeoutMs })
    ).stdout;
  };
  await apt('update', '-qq');
  return apt;
}

/** The mirror of the host; security updates are next to the release, as on all mirrors. */
async function packageSources(): Promise<string> {
  const words = ['indextargets', '--format', '$(SITE)', 'Created-By: Packages', 'Origin: Debian'];
  const { stdout } = await run(['apt-get', ...words], { env: downloadEnvironment(), timeoutMs: downloadTimeoutMs });
  const mirror = stdout.split('\n').find((site) => site.endsWith('/debian'));
  if (!mirror) throw new Error('apt has no Debian mirror; add one to its sources');
  const { codename } = release;
  return [`${mirror} ${codename}`, `${mirror} ${codename}-updates`, `${mirror}-security ${codename}-security`]
    .map((source) => `deb [signed-by=${keyring}] ${source} main\n`)
    .join('');
}

async function unpack(archive: string, into: string): Promise<Omit<DebianPackage, 'dir'>> {
  const field = async (...names: string[]) =>
    (await run(['dpkg-deb', '--field', archive, ...names], { timeoutMs: unpackTimeoutMs })).stdout;
  const name = (await field('Package')).trim();
  await run(['dpkg-deb', '--extract', archive, join(into, name)], { timeoutMs: unpackTimeoutMs });
  return {
    name,
    version: (await field('Version')).trim(),
    sha256: createHash('sha256')
      .update(await readFile(archive))
      .digest('hex'),
    control: await field(),
  };
}
