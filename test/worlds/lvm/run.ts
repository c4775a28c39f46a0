/**
 * node test/worlds/lvm/run.ts [--test-OPTION...] FILE...
 *
 * Runs each test file where real LVM works, in a world of its own: on this kernel if it has device mapper and we are
 * root, else in a machine. Output and exit code are those of the tests.
 */
import { messageOf } from '../../../src/base/errors.ts';
import { stage } from '../host/progress.ts';
import { machineWorld } from './machine-world.ts';
import { nativeWorld, whyNotNative } from './native-world.ts';
import type { World } from './world.ts';

const words = process.argv.slice(2);
const options = words.filter((word) => word.startsWith('--'));
const files = words.filter((word) => !word.startsWith('--'));
if (files.length === 0) {
  console.error('usage: node test/worlds/lvm/run.ts [--test-OPTION...] FILE...');
  process.exit(2);
}

const obstacle = await whyNotNative();
if (obstacle) console.error(`tests run in a machine, since here they cannot: ${obstacle}`);
for (const file of files) {
  try {
    if ((await runFile(file)) !== 0) process.exitCode = 1;
  } catch (error) {
    console.error(`${file}: ${messageOf(error)}`);
    process.exitCode = 1;
  }
}

async function runFile(file: string): Promise<number> {
  const world = await openWorld();
  try {
    // One process for the runner and the file: a machine is slow to start a second one.
    const command = [process.execPath, '--test', '--test-isolation=none', ...options, file];
    const exitCode = await world.run(command, { ...colours(), ...wishes() });
    if (exitCode !== 0)
      console.error(`${file} failed in the LVM world; the world's last words:\n${await world.lastWords()}`);
    return exitCode;
  } finally {
    await world.close();
  }
}

async function openWorld(): Promise<World> {
  return obstacle ? stage('LVM machine', machineWorld) : nativeWorld();
}

function colours(): Record<string, string> {
  return process.stdout.isTTY ? { FORCE_COLOR: '1' } : {};
}

/** What the person who runs a test asks of it. */
function wishes(): Record<string, string> {
  const wished = Object.entries(process.env).filter(([name]) => name.startsWith('MOORAGE_TEST_'));
  return Object.fromEntries(wished.map(([name, value]) => [name, value ?? '']));
}
