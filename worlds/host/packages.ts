import { downloadEnvironment } from './environment.ts';
import { eventually } from './eventually.ts';
import { execute } from './processes.ts';
import type { Say } from './progress.ts';

/** Installs missing Debian packages. Without root, the error names them. */
export async function ensurePackages(packages: readonly string[], say: Say): Promise<void> {
  const missing = await notInstalled(packages);
  if (missing.length === 0) return;
  const command = `apt-get install --no-install-recommends ${missing.join(' ')}`;
  if (process.getuid?.() !== 0) throw new Error(`missing Debian packages; as root, run: ${command}`);
  const apt = async (...args: string[]) => {
    say(`apt-get ${args[0]} ${missing.join(' ')}`);
    await execute('apt-get', ['-qq', '-o', 'DPkg::Lock::Timeout=120', ...args], {
      env: { ...downloadEnvironment(), DEBIAN_FRONTEND: 'noninteractive' },
      maxBuffer: 64 << 20,
    });
  };
  await eventually('dpkg is free', () => finishInterruptedInstall(), { timeoutMs: 120_000 });
  await apt('update');
  await apt('install', '-y', '--no-install-recommends', ...missing);
}

/** A killed install may still be writing, or have left packages half-installed. */
async function finishInterruptedInstall(): Promise<true> {
  await execute('dpkg', ['--configure', '-a']);
  return true;
}

async function notInstalled(packages: readonly string[]): Promise<string[]> {
  const query = ['-W', '-f', '${Package} ${db:Status-Status}\n', ...packages];
  // dpkg-query fails if it does not know one of them, and still prints the others.
  const listing = await execute('dpkg-query', query).then(
    ({ stdout }) => stdout,
    (error: { stdout?: string; message: string }) => {
      if (error.stdout === undefined) throw new Error(`this needs a Debian machine: ${error.message}`);
      return error.stdout;
    },
  );
  const installed = new Set(
    listing
      .split('\n')
      .filter((line) => line.endsWith(' installed'))
      .map((line) => line.split(' ')[0]),
  );
  return packages.filter((name) => !installed.has(name));
}
