import { copyFile, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { systemClock } from '../../src/base/clock.ts';
import { type Run, run } from '../../src/base/exec.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import type { LvmClass, OptionClass, ThickClass, ThinClass } from '../../src/engine/config/device-classes.ts';
import { VolumeGroups } from '../../src/engine/lvm/volume-groups.ts';
import type { ServedPool } from '../../src/engine/pool.ts';
import { poolOpener } from '../../src/engine/storage-engine.ts';
import { undoAfter } from '../../worlds/lvm/undo.ts';

export const mebibyte = 1024n ** 2n;
export const signal = new AbortController().signal;

export function thickClass(volumeGroup: string, settings: Partial<ThickClass> = {}): ThickClass {
  return { ...lvmClass(volumeGroup), name: 'ssd', type: 'thick', snapshots: 'none', ...settings };
}

export function thinClass(volumeGroup: string, settings: Partial<ThinClass> = {}): ThinClass {
  const thinPool = { name: 'pool', overprovisionRatio: 10, maxDataPercent: 90, maxMetadataPercent: 85 };
  return { ...lvmClass(volumeGroup), name: 'thin', type: 'thin', thinPool, ...settings };
}

function lvmClass(volumeGroup: string) {
  return {
    isDefault: false,
    spareBytes: 0n,
    erase: { kind: 'none' as const },
    volumeGroup,
    stripes: 0,
    stripeSize: undefined,
    lvcreateOptions: [],
  };
}

/** One engine: pools that share the state of their volume groups, until it is stopped or the test ends. */
export class Engine {
  readonly groups: VolumeGroups;
  readonly optionClasses: readonly OptionClass[];

  readonly #run: Run;
  readonly #opened: ServedPool[] = [];

  constructor(
    t: TestContext,
    optionClasses: readonly OptionClass[] = [],
    command: readonly string[] = ['lvm'],
    options: { readonly run: Run; readonly env: NodeJS.ProcessEnv } = { run, env: process.env },
  ) {
    this.optionClasses = optionClasses;
    this.#run = options.run;
    this.groups = new VolumeGroups({
      command: command as [string, ...string[]],
      run: options.run,
      env: options.env,
      clock: systemClock,
      log: silentLog,
    });
    undoAfter(t, async () => {
      for (const pool of this.#opened) await pool.stop(0); // a thin pool that is filling is measured until then
      await this.groups.stop();
    });
  }

  async open(deviceClass: LvmClass): Promise<ServedPool> {
    const open = poolOpener({
      groups: this.groups,
      stateDirectory: '/nowhere',
      run: this.#run,
      clock: systemClock,
      log: silentLog,
    });
    const pool = await open({ deviceClass, optionClasses: this.optionClasses }, signal);
    this.#opened.push(pool);
    return pool;
  }
}

/** A copy of LVM's configuration, for a test to change, and the environment in which LVM uses it. */
export async function copiedConfiguration(
  t: TestContext,
): Promise<{ readonly configuration: string; readonly env: NodeJS.ProcessEnv }> {
  const directory = await mkdtemp(join(tmpdir(), 'lvm-conf-'));
  undoAfter(t, () => rm(directory, { recursive: true }));
  const configuration = join(directory, 'lvm.conf');
  await copyFile(join(process.env['LVM_SYSTEM_DIR'] ?? '/etc/lvm', 'lvm.conf'), configuration);
  return { configuration, env: { ...process.env, LVM_SYSTEM_DIR: directory } };
}
