import type { TestContext } from 'node:test';
import { MoorageError } from '../../src/base/errors.ts';
import { run } from '../../src/base/exec.ts';
import { undoAfter } from './undo.ts';

const commandTimeoutMs = 180_000;

/** The code did not run inside the LVM world. */
export class NotInLvmWorld extends MoorageError {
  readonly code = 'FailedPrecondition';
  constructor() {
    super('this test needs the LVM world; run it with: node worlds/lvm/run.ts FILE');
  }
}

/** The world's disks: block devices, empty at first, shared by the tests of one file. */
export function disks(): string[] {
  return fromWorld('LVM_TEST_DISKS').split(' ');
}

let volumeGroups = 0;

/** A volume group on some of the world's disks, or on faulty disks. It is removed with its contents after the test. */
export async function volumeGroup(t: TestContext, options: { readonly disks: readonly string[] }): Promise<string> {
  const name = deviceName(`vg${++volumeGroups}`);
  await command('vgcreate', '-y', name, ...options.disks);
  undoAfter(t, async () => {
    await command('vgremove', '-ff', '-y', name);
    await command('pvremove', '-y', ...options.disks);
  });
  return name;
}

/** A unique name on this kernel for a device or a volume group. */
export function deviceName(name: string): string {
  return `${fromWorld('LVM_TEST_PREFIX')}${name}`;
}

/** Runs a command, such as one of LVM; returns its trimmed output. */
export async function command(program: string, ...args: string[]): Promise<string> {
  const { stdout } = await run([program, ...args], { timeoutMs: commandTimeoutMs });
  return stdout.trim();
}

function fromWorld(variable: string): string {
  const value = process.env[variable];
  if (!value) throw new NotInLvmWorld();
  return value;
}
