import type { Clock } from '../base/clock.ts';
import type { Command, Run } from '../base/exec.ts';
import { KeyedLock } from '../base/keyed-lock.ts';
import type { Log } from '../base/log.ts';
import { Eraser } from './eraser.ts';
import { Erasures } from './erasures.ts';
import { PoolMissing } from './errors.ts';
import { FilePool } from './file/file-pool.ts';
import { Lvm } from './lvm/lvm.ts';
import { LvmPool } from './lvm/lvm-pool.ts';
import type { OpenPool } from './served-pool.ts';

export interface PoolCollaborators {
  /** How to call `lvm` itself. */
  readonly lvmCommand: Command;
  readonly run: Run;
  /** The environment that LVM commands inherit. */
  readonly env: NodeJS.ProcessEnv;
  readonly clock: Clock;
  readonly log: Log;
}

/** Opens pools of all kinds; those in one volume group take turns. */
export function poolOpener({ lvmCommand, run, env, clock, log }: PoolCollaborators): OpenPool {
  const lvm = new Lvm({ command: lvmCommand, run, env });
  const lock = new KeyedLock();
  return async ({ deviceClass }, signal) => {
    const erasures = new Erasures({ eraser: new Eraser(run), clock, log });
    switch (deviceClass.type) {
      case 'file':
        return FilePool.open({ deviceClass, erasures, run, log }, signal);
      case 'thick':
        return LvmPool.open({ deviceClass, lvm, lock, log }, signal);
      case 'thin':
        throw new PoolMissing(`device class ${deviceClass.name} is thin; use a thick class`);
    }
  };
}
