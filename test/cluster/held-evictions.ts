import type { Cluster } from '../../worlds/cluster/cluster.ts';

/**
 * Until it is released, no eviction of the pods with the label `app` succeeds: neither one that the webhook lets pass, because it has
 * not seen yet that the node is drained, nor that of a move. The webhook is asked before the PodDisruptionBudget.
 */
export async function holdEvictions(cluster: Cluster, namespace: string, app: string): Promise<() => Promise<void>> {
  const budget = ['-n', namespace, 'poddisruptionbudget', `held-${app}`];
  await cluster.kubectl('create', ...budget, `--selector=app=${app}`, '--max-unavailable=0');
  return async () => void (await cluster.kubectl('delete', ...budget));
}
