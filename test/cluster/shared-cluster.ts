import { after } from 'node:test';
import { Cluster } from '../../worlds/cluster/cluster.ts';
import { Moorage } from '../../worlds/cluster/moorage.ts';
import { createFilesystemClasses } from './filesystem-classes.ts';

export interface InstalledCluster {
  readonly cluster: Cluster;
  readonly moorage: Moorage;
}

let shared: Promise<InstalledCluster> | undefined;

/**
 * Two nodes with Moorage and a StorageClass for each filesystem, for all files that run in this process. Each user restores its state: no
 * claim, no volume, and a serving agent on each node. It ends with the process's tests.
 */
export function sharedCluster(): Promise<InstalledCluster> {
  shared ??= install();
  return shared;
}

after(async () => {
  const { cluster } = (await shared?.catch(() => undefined)) ?? {}; // its users got the error
  await cluster?.stop();
});

async function install(): Promise<InstalledCluster> {
  const cluster = await Cluster.start({ nodes: 2 });
  try {
    const moorage = await Moorage.install(cluster);
    await createFilesystemClasses(cluster);
    return { cluster, moorage };
  } catch (error) {
    await cluster.stop();
    throw error;
  }
}
