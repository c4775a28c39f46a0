import { after } from 'node:test';
import { Cluster } from '../../worlds/cluster/cluster.ts';
import { Moorage } from '../../worlds/cluster/moorage.ts';
import { createFilesystemClasses } from './filesystem-classes.ts';
import { onFailure } from './story.ts';

export interface InstalledCluster {
  readonly cluster: Cluster;
  readonly moorage: Moorage;
}

let shared: Promise<InstalledCluster> | undefined;
let hasFailed = false;
onFailure(() => {
  hasFailed = true;
});
after(stop);

/**
 * Two nodes with Moorage and a StorageClass for each filesystem, for all files that run in this process. Each user restores its state: no
 * claim, no volume, and a serving agent on each node. After a failure the next user gets another cluster. Call it when the
 * tests of a file begin, not when the file is loaded. It ends with the process's tests.
 */
export async function sharedCluster(): Promise<InstalledCluster> {
  if (hasFailed) {
    await stop();
    shared = undefined;
    hasFailed = false;
  }
  shared ??= install();
  return shared;
}

async function stop(): Promise<void> {
  const { cluster } = (await shared?.catch(() => undefined)) ?? {}; // its users got the error
  await cluster?.stop();
}

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
