import { Cluster } from '../../worlds/cluster/cluster.ts';
import { Moorage } from '../../worlds/cluster/moorage.ts';
import { values } from '../../worlds/cluster/values.ts';
import { stage } from '../../worlds/host/progress.ts';
import { podMemory } from './pod-memory.ts';
import { afterDeletion, afterKill, afterUpgrade, type Restart } from './restart.ts';
import { type InstallResults, restartStatistics } from './results.ts';

const memoryMb = 2048;
const rounds = 5;

/** Moorage's memory and restart times, installed from its chart with every feature enabled, on one node. */
export async function measureInstallation(): Promise<InstallResults> {
  const cluster = await Cluster.start({ nodes: 1, memoryMb });
  try {
    const node = cluster.node('a');
    const moorage = await stage('Moorage', (say) =>
      Moorage.install(cluster, {
        values: {
          ...values,
          scheduler: { enabled: true, replicaCount: 1 },
          webhook: { podMutatingWebhook: { enabled: true } },
        },
        say,
      }),
    );
    return await stage('Measuring', async (say) => {
      const memory = await podMemory(cluster, node);
      const killed: Restart[] = [];
      const deleted: Restart[] = [];
      const upgraded: Restart[] = [];
      for (let round = 1; round <= rounds; round++) {
        say(`round ${round} of ${rounds}`);
        killed.push(await afterKill(moorage, node)); // once per pod: the kubelet delays later restarts
        deleted.push(await afterDeletion(cluster, moorage, node));
        upgraded.push(await afterUpgrade(cluster, moorage, node));
      }
      const restarts = {
        killed: restartStatistics(killed),
        deleted: restartStatistics(deleted),
        upgraded: restartStatistics(upgraded),
      };
      return { memory, restarts };
    });
  } finally {
    await cluster.stop();
  }
}
