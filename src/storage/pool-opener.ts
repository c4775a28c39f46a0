import type { Clock } from '../base/clock.ts';
import type { Run } from '../base/exec.ts';
import type { Log } from '../base/log.ts';
import { Eraser } from './eraser.ts';
import { Erasures } from './erasures.ts';
import { FilePool } from './file/file-pool.ts';
import { ThickPool } from './lvm/thick-pool.ts';
import { ThinPool } from './lvm/thin-pool.ts';
import type { VolumeGroups } from './lvm/volume-groups.ts';
import type { OpenPool } from './served-pool.ts';

export interface PoolCollaborators {
  readonly groups: VolumeGroups;
  readonly stateDirectory: string;
  readonly run: Run;
  readonly clock: Clock;
  readonly log: Log;
}

/** Opens pools of all kinds; those in one volume group share what is known of it, and take turns. */
export function poolOpener({ groups, stateDirectory, run, clock, log }: PoolCollaborators): OpenPool {
  return async ({ deviceClass, optionClasses }, signal) => {
    const erasures = new Erasures({ eraser: new Eraser(run), clock, log });
    if (deviceClass.type === 'file') return FilePool.open({ deviceClass, erasures, stateDirectory, run, log }, signal);
    const shared = { optionClasses, group: await groups.open(deviceClass.volumeGroup, signal), erasures, log };
    return deviceClass.type === 'thick'
      ? ThickPool.open({ ...shared, deviceClass }, signal)
      : ThinPool.open({ ...shared, deviceClass, clock }, signal);
  };
}
