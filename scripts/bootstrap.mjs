// Runs one of our TypeScript scripts on a machine that has nothing but Node 20 or newer and npm:
//   node scripts/bootstrap.mjs SCRIPT.ts [ARG...]
// Brings in the packages (Node 26 among them) if they are not those of package-lock.json, then hands over.
import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

// Whoever kills npm, which cannot tell us, means us too. (package.json starts us with exec, so npm is our parent.)
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
    return undefined; // never installed, or npm ci did not get to its end
  }
}

if (installed() !== wanted) {
  console.error('Installing Node modules (npm ci)');
  const npm = spawnSync('npm', ['ci', '--no-audit', '--no-fund', '--loglevel=error'], { cwd: home, stdio: 'inherit' });
  if (npm.error || npm.status !== 0) {
    console.error(`npm ci failed${npm.error ? `: ${npm.error.message}` : ''}; the lines above say why`);
    process.exit(1);
  }
  // A package for one kind of machine is an optional one, and npm leaves an optional one out if it is not what was locked.
  if (!existsSync(node)) {
    console.error(
      `npm ci has installed no node-linux-${process.arch}; see whether npm reaches its registry, and try again`,
    );
    process.exit(1);
  }
  writeFileSync(stamp, wanted);
}

const [script, ...args] = process.argv.slice(2);
if (isOrphan()) process.exit(1);
const child = spawn('setpriv', ['--pdeathsig', 'KILL', node, join(home, script), ...args], {
  stdio: 'inherit',
  detached: true, // a process group of its own, so that all of it can be ended at once
  env: { ...process.env, PATH: `${dirname(node)}:${process.env.PATH}` },
});
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => end(signal));
child.on('exit', (code) => process.exit(code ?? 1));
setInterval(() => isOrphan() && end('SIGKILL'), 250).unref();

function end(signal) {
  try {
    process.kill(-child.pid, signal);
  } catch {
    process.exit(1); // it has ended by itself
  }
}
