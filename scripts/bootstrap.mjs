// Runs one of our TypeScript scripts on a machine that has only Node 20 or newer and npm:
//   node scripts/bootstrap.mjs SCRIPT.ts [ARG...]
// Installs the packages (including Node 26) if they differ from package-lock.json, then starts the script.
import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

// If npm is killed, which it cannot report, we must end too. (package.json starts us with exec, so npm is our parent.)
const parent = process.ppid;
const isOrphan = () => process.ppid !== parent;

const home = dirname(dirname(fileURLToPath(import.meta.url)));
const node = join(home, 'node_modules', '.bin', 'node');
const stamp = join(home, 'node_modules', '.moorage-lock');
const wanted = createHash('sha256')
  .update(readFileSync(join(home, 'package-lock.json')))
  .digest('hex');

function installed() {
  try {
    return readFileSync(stamp, 'utf8');
  } catch {
    return undefined; // never installed, or npm ci did not finish
  }
}

if (installed() !== wanted) {
  console.error('Installing Node modules (npm ci)');
  const npm = spawnSync('npm', ['ci', '--no-audit', '--no-fund', '--loglevel=error'], { cwd: home, stdio: 'inherit' });
  if (npm.error || npm.status !== 0) {
    console.error(`npm ci failed${npm.error ? `: ${npm.error.message}` : ''}; see the lines above`);
    process.exit(1);
  }
  // A platform package is optional, and npm silently skips an optional package that does not match the lock file.
  if (!existsSync(node)) {
    console.error(`npm ci did not install node-linux-${process.arch}; check that npm reaches its registry, and retry`);
    process.exit(1);
  }
  writeFileSync(stamp, wanted);
}

const [script, ...args] = process.argv.slice(2);
if (isOrphan()) process.exit(1);
const child = spawn('setpriv', ['--pdeathsig', 'KILL', node, join(home, script), ...args], {
  stdio: 'inherit',
  detached: true, // its own process group, so that all of it can be killed at once
  env: { ...process.env, PATH: `${dirname(node)}:${process.env.PATH}` },
});
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => end(signal));
child.on('exit', (code) => process.exit(code ?? 1));
setInterval(() => isOrphan() && end('SIGKILL'), 250).unref();

function end(signal) {
  try {
    process.kill(-child.pid, signal);
  } catch {
    process.exit(1); // it has already exited
  }
}
