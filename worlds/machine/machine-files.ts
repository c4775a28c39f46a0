import { access, chmod, copyFile, mkdir, readdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { arch } from 'node:os';
import { delimiter, join } from 'node:path';
import { messageOf } from '../../src/base/errors.ts';
import { cached, keyOf } from '../host/cache.ts';
import { environment } from '../host/environment.ts';
import { run } from '../host/processes.ts';
import { DebianPackages } from './debian-packages.ts';
import { MachineFilesUnavailable } from './errors.ts';

/** What every machine boots from: read-only, shared by all machines, made once. */
export interface MachineFiles {
  /** The User-Mode-Linux kernel, an ordinary executable. It must be started with `kernelDir` as its working directory. */
  readonly kernel: string;
  /** Holds the kernel and the C library it was linked with, which may be newer than the host's. */
  readonly kernelDir: string;
  /** Words of the kernel's command line that suit this kernel. */
  readonly kernelArguments: readonly string[];
  /** A tree with LVM, mkfs and cryptsetup programs and the kernel's modules, laid over the host's files in the guest. */
  readonly toolsDir: string;
}

const tools = [
  ...['lvm2', 'dmsetup', 'thin-provisioning-tools', 'cryptsetup-bin'],
  ...['xfsprogs', 'btrfs-progs', 'e2fsprogs', 'kmod', 'busybox-static'],
];

/** Where to look for the kernel, best first: a newer one has a seccomp mode, in which processes start six times faster. */
const kernelReleases = ['sid', 'trixie', 'host'];

/** Which Debian package brings each program that making and running machines needs on the host. */
const neededPrograms = {
  'apt-get': 'apt',
  'dpkg-deb': 'dpkg',
  tar: 'tar',
  flock: 'util-linux',
  setpriv: 'util-linux',
  taskset: 'util-linux',
  unshare: 'util-linux',
};

/** Makes the files on first use and tells each step; later calls return at once. Needs no root and installs nothing. */
export async function ensureMachineFiles(report: (line: string) => void): Promise<MachineFiles> {
  await requirePrograms();
  const sources = ['machine-files.ts', 'debian-packages.ts'].map((name) => join(import.meta.dirname, name));
  const key = await keyOf([...sources, '/etc/os-release'], [arch()]);
  const dir = await cached(`machine-${key}`, async (draft) => {
    const kernelArguments = await make(draft, report);
    await writeFile(join(draft, 'files.json'), JSON.stringify({ kernelArguments }));
  });
  const { kernelArguments } = JSON.parse(await readFile(join(dir, 'files.json'), 'utf8')) as Pick<
    MachineFiles,
    'kernelArguments'
  >;
  const kernelDir = join(dir, 'kernel');
  return { kernel: join(kernelDir, 'linux'), kernelDir, kernelArguments, toolsDir: join(dir, 'tools') };
}

/** Fills `dir` and returns the kernel's arguments. */
async function make(dir: string, report: (line: string) => void): Promise<string[]> {
  const toolsDir = join(dir, 'tools');
  const kernelDir = join(dir, 'kernel');
  const apt = join(dir, 'apt');
  await mkdir(kernelDir, { recursive: true });
  for (const name of ['bin', 'sbin', 'lib', 'lib64']) {
    await mkdir(join(toolsDir, 'usr', name), { recursive: true });
    await symlink(join('usr', name), join(toolsDir, name)); // as on the host, whose /lib the tree would hide otherwise
  }

  report('reading package lists');
  const { host, missing } = await planTools(apt);
  report(`unpacking ${missing.length} packages of tools`);
  await host.unpack(missing, toolsDir);
  // What the host has itself is not among them; the guest's first steps need this one by its full name.
  const busybox = join(toolsDir, 'usr/bin/busybox');
  if (!(await exists(busybox))) await copyFile('/usr/bin/busybox', busybox);

  const unpacked = join(dir, 'unpacked');
  await unpackKernel(host, unpacked, report);
  await moveModules(unpacked, toolsDir);
  await moveKernel(unpacked, kernelDir);
  await rm(unpacked, { recursive: true });
  await rm(apt, { recursive: true });

  const help = await run(['./linux', '--help'], {
    cwd: kernelDir,
    env: { LD_LIBRARY_PATH: kernelDir },
    timeoutMs: 10_000,
  });
  return /^seccomp=/m.test(help.stdout) ? ['seccomp=on'] : [];
}

async function planTools(apt: string): Promise<{ host: DebianPackages; missing: string[] }> {
  try {
    const host = await DebianPackages.ofHost(apt);
    return { host, missing: await host.missing(tools) };
  } catch (cause) {
    const remedy = 'check the network and the sources of apt';
    throw new MachineFilesUnavailable(`no packages for a machine: ${messageOf(cause)}; ${remedy}`, { cause });
  }
}

async function unpackKernel(host: DebianPackages, tree: string, report: (line: string) => void): Promise<void> {
  const failures: string[] = [];
  for (const release of kernelReleases) {
    try {
      report(`unpacking the kernel of ${release}`);
      await mkdir(tree, { recursive: true });
      if (release === 'host') await host.unpack(['user-mode-linux'], tree);
      else await (await host.ofRelease(release)).unpack(['user-mode-linux', 'libc6'], tree);
      return;
    } catch (error) {
      failures.push(`${release}: ${messageOf(error).trim()}`);
      await rm(tree, { recursive: true });
    }
  }
  throw new MachineFilesUnavailable(
    `no release has a user-mode-linux package for us; check the network and the sources of apt\n${failures.join('\n')}`,
  );
}

async function moveModules(unpacked: string, toolsDir: string): Promise<void> {
  const from = join(unpacked, 'usr/lib/uml/modules');
  const [version = ''] = await readdir(from);
  const modules = join(toolsDir, 'usr/lib/modules', version);
  await mkdir(join(toolsDir, 'usr/lib/modules'));
  await rename(join(from, version), modules);
  for (const unused of ['sound', 'drivers/media', 'drivers/gpu', 'drivers/iio', 'drivers/mtd']) {
    await rm(join(modules, 'kernel', unused), { recursive: true, force: true });
  }
}

/** The kernel may want a newer C library than the host's: then it comes with its own, found from its working directory. */
async function moveKernel(unpacked: string, kernelDir: string): Promise<void> {
  const kernel = join(kernelDir, 'linux');
  await rename(join(unpacked, 'usr/bin/linux.uml'), kernel);
  const libraries = join(unpacked, 'usr/lib/x86_64-linux-gnu');
  if (!(await exists(join(libraries, 'libc.so.6')))) return;
  await copyFile(join(libraries, 'libc.so.6'), join(kernelDir, 'libc.so.6'));
  await copyFile(join(libraries, 'ld-linux-x86-64.so.2'), join(kernelDir, 'ld.so'));

  const binary = await readFile(kernel);
  const interpreter = Buffer.from('/lib64/ld-linux-x86-64.so.2\0');
  const at = binary.indexOf(interpreter);
  if (at < 0) throw new MachineFilesUnavailable('the kernel names no interpreter; only x86-64 is supported');
  binary.fill(0, at, at + interpreter.length); // a shorter name, so that nothing moves
  binary.write('ld.so', at);
  await writeFile(kernel, binary);
  await chmod(kernel, 0o755);
}

export async function requirePrograms({ PATH = '' } = environment()): Promise<void> {
  const dirs = PATH.split(delimiter);
  const found = await Promise.all(
    Object.keys(neededPrograms).map(async (name) => {
      const there = await Promise.all(dirs.map((dir) => exists(join(dir, name))));
      return there.includes(true);
    }),
  );
  const missing = Object.entries(neededPrograms).filter((_, index) => !found[index]);
  if (missing.length === 0) return;
  const programs = missing.map(([program]) => program).join(', ');
  const packages = [...new Set(missing.map(([, name]) => name))].join(' ');
  throw new MachineFilesUnavailable(
    `a machine needs ${programs}, not found here; on Debian: apt-get install ${packages}`,
  );
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
