import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { dirOf, helm, namespace, type Value } from '../../test/chart/chart.ts';
import type { Cluster } from './cluster.ts';
import { importCopy } from './moorage.ts';
import { writeMoorageImage } from './moorage-image.ts';

/** Static volumes on a cluster without CSI, from the chart `local-pv`; resolves when the agents and the controller are ready. */
export async function installLocalPv(cluster: Cluster, ...values: readonly Value[]): Promise<void> {
  const dir = join(cluster.dir, 'moorage');
  await mkdir(dir, { recursive: true });
  const archive = join(dir, 'moorage.tar');
  await writeMoorageImage(archive);
  await Promise.all(cluster.nodes.map((node) => importCopy(node, archive)));
  await cluster.kubectl('create', 'namespace', namespace);
  await cluster.kubectl('label', 'namespace', namespace, 'pod-security.kubernetes.io/enforce=privileged');
  const set = ['image.pullPolicy=Never', ...values].map((value) => `--set=${value}`);
  await helmOn(cluster, 'install', 'local-pv', dirOf('local-pv'), '--wait', ...set);
}

/** Runs helm as an administrator; if something does not become ready, the error includes the logs of the nodes. */
export async function helmOn(cluster: Cluster, ...words: readonly string[]): Promise<string> {
  const admin = [`--kubeconfig=${cluster.kubeconfig}`, `--namespace=${namespace}`, '--timeout=240s'];
  return helm(...words, ...admin).catch(async (error: Error) => {
    const pods = await cluster.kubectl('-n', namespace, 'describe', 'pods').catch((failure: Error) => failure.message);
    throw new Error(`${error.message}\n${pods}\n${await cluster.tails()}`, { cause: error });
  });
}
