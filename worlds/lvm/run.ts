/**
 * node worlds/lvm/run.ts [--test-OPTION...] FILE...
 *
 * Runs each test file with real LVM in its own world: on this kernel if it has device mapper and the user is root,
 * otherwise in a machine. One file per core runs at a time. Output and exit code are those of the tests.
 */
import { availableParallelism } from 'node:os';
import { messageOf } from '../../src/base/errors.ts';
import { testSettings } from '../host/environment.ts';
import { heading, stage } from '../host/progress.ts';
import { machineWorld } from './machine-world.ts';
import { nativeWorld, whyNotNative } from './native-world.ts';
import type { World } from './world.ts';

const words = process.argv.slice(2);
const options = words.filter((word) => word.startsWith('--'));
const files = words.filter((word) => !word.startsWith('--'));
if (files.length === 0) {
  console.error('usage: node worlds/lvm/run.ts [--test-OPTION...] FILE...');
  process.exit(2);
}

const obstacle = await whyNotNative();
if (obstacle) console.error(`running tests in a machine, because this host cannot run them: ${obstacle}`);
const waiting = [...files];
const cores = Array.from({ length: Math.min(availableParallelism(), files.length) }, (_, core) => core);
await Promise.all(cores.map(work));

/** One world per core: a second one would only slow down both. */
async function work(core: number): Promise<void> {
  for (let file = waiting.shift(); file !== undefined; file = waiting.shift()) {
    try {
      if ((await runFile(file, core)) !== 0) process.exitCode = 1;
    } catch (error) {
      console.log(asFailure(file, messageOf(error)));
      process.exitCode = 1;
    }
  }
}

async function runFile(file: string, core: number): Promise<number> {
  const world = await openWorld(core);
  const printed: Buffer[] = [];
  // Interleaved output of several files would be unreadable.
  const print =
    files.length > 1 ? (piece: Buffer) => printed.push(piece) : (piece: Buffer) => process.stdout.write(piece);
  try {
    // One process for the runner and the file: starting a second one is slow in a machine.
    const command = [process.execPath, '--test', '--test-isolation=none', ...options, file];
    const exitCode = await world.run(command, { ...colours(), ...testSettings() }, print).finally(() => {
      if (files.length > 1) process.stdout.write(Buffer.concat([Buffer.from(`${heading(file)}\n`), ...printed]));
    });
    if (exitCode !== 0)
      console.error(`${file} failed in the LVM world; the world's last log lines:\n${await world.lastWords()}`);
    return exitCode;
  } finally {
    await world.close();
  }
}

async function openWorld(core: number): Promise<World> {
  return obstacle ? stage('LVM machine', (say) => machineWorld(say, core)) : nativeWorld();
}

/** Reports a file whose world broke as one failed test. */
function asFailure(file: string, why: string): string {
  const indented = why.replaceAll(/^/gm, '  ');
  return `${heading(file)}\nℹ fail 1\n\n✖ failing tests:\n\ntest at ${file}:1:1\n✖ ${file}\n${indented}`;
}

function colours(): Record<string, string> {
  return process.stdout.isTTY ? { FORCE_COLOR: '1' } : {};
}
