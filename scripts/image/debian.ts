import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { run } from '../../src/base/exec.ts';
import { cached, keyOf } from '../../test/worlds/host/cache.ts';
import type { Say } from '../../test/worlds/host/progress.ts';

/**
 * The oldest release that has all we need: what its mkfs makes, older kernels can still mount.
 * Its updates come with the security suite.
 */
export const release = { codename: 'bookworm', version: '12' };

const keyring = '/usr/share/keyrings/debian-archive-keyring.gpg';
const downloadTimeoutMs = 10 * 60_000;
const unpackTimeoutMs = 60_000;

/** A package as it was fetched, with its files unpacked in a directory of its own. */
export interface DebianPackage {
  readonly name: string;
  readonly version: string;
  /** Of the archive that was fetched. */
  readonly sha256: string;
  /** What the package says of itself: the fields that dpkg would keep in its status file. */
  readonly control: string;
  readonly dir: string;
}

/** The named packages and all that they depend on, in the newest versions of the release, whatever the host has installed. */
export async function fetchPackages(names: readonly string[], say: Say): Promise<DebianPackage[]> {
  const dir = await mkdtemp(join(tmpdir(), 'moorage-apt-'));
  try {
    say('reading package lists');
    const apt = await openApt(dir);
    const plan = await apt('install', '--simulate', '-qq', '--no-install-recommends', ...names);
    const wanted = [...plan.matchAll(/^Inst (\S+)[^(]*\((\S+) /gm)].map(([, name, version]) => `${name}=${version}`);
    const fetched = await cached(`image-packages-${await keyOf([import.meta.filename], wanted)}`, async (draft) => {
      say(`fetching ${wanted.length} packages`);
      const downloads = join(dir, 'downloads');
      await mkdir(downloads);
      await apt('download', '-qq', ...wanted);
      const packages = [];
      for (const file of (await readdir(downloads)).sort()) packages.push(await unpack(join(downloads, file), draft));
      await writeFile(join(draft, 'packages.json'), JSON.stringify(packages));
    });
    const packages = JSON.parse(await readFile(join(fetched, 'packages.json'), 'utf8')) as Omit<DebianPackage, 'dir'>[];
    return packages.map((one) => ({ ...one, dir: join(fetched, one.name) }));
  } finally {
    await rm(dir, { recursive: true });
  }
}

/** apt-get with lists and a status of its own in `dir`: nothing counts as installed, and the host's stay as they are. */
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
    const cwd = words[0] === 'download' ? join(dir, 'downloads') : dir; // where it puts them
    return (await run(['apt-get', ...options, ...words], { cwd, timeoutMs: downloadTimeoutMs })).stdout;
  };
  await apt('update', '-qq');
  return apt;
}

/** From the mirror that the host uses, where security updates are beside the release, as on all mirrors. */
async function packageSources(): Promise<string> {
  const words = ['indextargets', '--format', '$(SITE)', 'Created-By: Packages', 'Origin: Debian'];
  const { stdout } = await run(['apt-get', ...words], { timeoutMs: downloadTimeoutMs });
  const mirror = stdout.split('\n').find((site) => site.endsWith('/debian'));
  if (!mirror) throw new Error('apt knows no mirror of Debian; add one to its sources');
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
