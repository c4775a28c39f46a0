import type { TestContext } from 'node:test';
import { MoorageError } from '../../src/base/errors.ts';
import type { CallOptions, Machine } from '../machine/machine.ts';
import { startMachine } from './machine-world.ts';

/** A machine with LVM and empty disks, controlled by a test on the host, because its power can be cut. */
export interface LvmWorld {
  readonly machine: Machine;
  /** The names of the disks in the machine. */
  readonly disks: readonly string[];
  /** Runs a script in the machine that must succeed; returns its trimmed output. */
  readonly sh: (script: string, options?: CallOptions) => Promise<string>;
  /** Cuts the power; the disks keep written data. */
  readonly powerLoss: () => Promise<void>;
  /** Boots again on the same disks and activates their volume groups, like a node; with systemd, waits until it has booted. */
  readonly boot: () => Promise<void>;
}

class ScriptFailed extends MoorageError {
  readonly code = 'Internal';
}

/** A world for one test, removed after it. With systemd, it boots Debian's, and its root filesystem survives a reboot. */
export async function lvmWorld(t: TestContext, { systemd = false } = {}): Promise<LvmWorld> {
  const { machine, disks, close } = await startMachine((line) => t.diagnostic(line), { systemd });
  t.after(close);
  const sh = async (script: string, options?: CallOptions) => {
    const { stdout, stderr, exitCode } = await machine.sh(`set -e\n${script}`, options);
    if (exitCode !== 0) throw new ScriptFailed(`exit code ${exitCode} of: ${script}\n${stdout}${stderr}`);
    return stdout.trim();
  };
  const onBoot = systemd ? 'systemctl is-system-running --wait || true' : 'vgchange --activate y';
  if (systemd) await sh(onBoot);
  return {
    machine,
    disks,
    sh,
    powerLoss: () => machine.powerLoss(),
    boot: async () => {
      await machine.start();
      await sh(onBoot);
    },
  };
}
