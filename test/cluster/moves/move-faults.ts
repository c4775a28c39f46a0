import type { Cluster } from '../../../worlds/cluster/cluster.ts';
import type { Moorage } from '../../../worlds/cluster/moorage.ts';
import type { Victim } from './move-cases.ts';

export interface Ends {
  readonly source: string;
  readonly target: string;
}

/** Kills something, calls `meanwhile` while it is gone if that is possible, and resolves when it was started again. */
export async function kill(
  victim: Victim,
  { cluster, moorage }: { readonly cluster: Cluster; readonly moorage: Moorage },
  { source, target }: Ends,
  meanwhile: () => Promise<void>,
): Promise<void> {
  const powerLoss = async (name: string) => {
    const node = cluster.node(name);
    await node.kill();
    await meanwhile();
    await node.boot();
  };
  switch (victim) {
    case 'source agent':
      await moorage.killAgent(cluster.node(source)); // the kubelet starts it again
      return meanwhile();
    case 'target agent':
      await moorage.killAgent(cluster.node(target));
      return meanwhile();
    case 'controller':
      await moorage.killController();
      return meanwhile();
    case 'API server':
      await cluster.apiServer.kill();
      cluster.apiServer.start();
      await cluster.controlPlane.whenReady();
      return meanwhile();
    case 'source node':
      return powerLoss(source);
    case 'target node':
      return powerLoss(target);
  }
}
