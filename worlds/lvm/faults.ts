import type { TestContext } from 'node:test';
import { command, deviceName } from './inside.ts';
import { undoAfter } from './undo.ts';

/** The first MiB is left out, so that LVM finds its label only on the faulty disk and not on the disk below it. */
const offsetSectors = 2048;

/** A disk that works until it is told to break. Use `path` instead of the disk below it. */
export interface FaultyDisk {
  readonly path: string;
  breakNow(): Promise<void>;
  heal(): Promise<void>;
}

/** Faults of a disk. Each method creates a disk that works at first, and removes it after the test. */
export const faults = {
  /** When broken, every read and write fails at once: a dead disk or a pulled cable. */
  error: (t: TestContext, disk: string) => faultyDisk(t, disk, (sectors) => `0 ${sectors} error`),

  /** When broken, reads work, but writes fail, or are lost although they seem to succeed. */
  flakey: (t: TestContext, disk: string, writes: 'fail' | 'are lost') => {
    const feature = writes === 'fail' ? 'error_writes' : 'drop_writes';
    return faultyDisk(t, disk, (sectors) => `0 ${sectors} flakey ${disk} ${offsetSectors} 0 1 1 ${feature}`);
  },

  /** When broken, every read and write takes this much longer. */
  delay: (t: TestContext, disk: string, delayMs: number) =>
    faultyDisk(t, disk, (sectors) => `0 ${sectors} delay ${disk} ${offsetSectors} ${delayMs}`),

  /** When broken, no read or write ends before it heals: a controller or a path that hangs. */
  hang: async (t: TestContext, disk: string): Promise<FaultyDisk> => {
    const whole = await faultyDisk(t, disk, (sectors) => `0 ${sectors} error`);
    const breakNow = async () => {
      undoAfter(t, () => whole.heal());
      await command('dmsetup', 'suspend', '--noflush', '--nolockfs', whole.path);
    };
    return { ...whole, breakNow };
  },

  /** When broken, every write takes this much longer, and reads are not affected. */
  slowWrites: (t: TestContext, disk: string, delayMs: number) => {
    const part = `${disk} ${offsetSectors}`;
    return faultyDisk(t, disk, (sectors) => `0 ${sectors} delay ${part} 0 ${part} ${delayMs}`);
  },
};

let made = 0;

async function faultyDisk(t: TestContext, disk: string, broken: (sectors: number) => string): Promise<FaultyDisk> {
  const name = deviceName(`fault${++made}`);
  const sectors = Number(await command('blockdev', '--getsz', disk)) - offsetSectors;
  const whole = `0 ${sectors} linear ${disk} ${offsetSectors}`;
  const become = async (table: string) => {
    await command('dmsetup', 'load', name, '--table', table);
    await command('dmsetup', 'suspend', '--noflush', '--nolockfs', name); // a broken disk could not be flushed
    await command('dmsetup', 'resume', name);
  };
  await command('dmsetup', 'create', name, '--table', whole);
  undoAfter(t, () => command('dmsetup', 'remove', '--retry', name));
  const heal = () => become(whole);
  return {
    path: `/dev/mapper/${name}`,
    heal,
    breakNow: async () => {
      undoAfter(t, heal); // so that what was created on it can be removed
      await become(broken(sectors));
    },
  };
}
