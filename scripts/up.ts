// npm run up: a real cluster of three nodes with LVM and Moorage, and a StatefulSet whose data survives its pod.
import { mkdir, symlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { messageOf } from '../src/base/errors.ts';
import { ensureHelm } from '../worlds/cluster/binaries.ts';
import { Cluster } from '../worlds/cluster/cluster.ts';
import { Moorage } from '../worlds/cluster/moorage.ts';
import { values } from '../worlds/cluster/values.ts';
import { duration, stage } from '../worlds/host/progress.ts';
import { clusterDir } from './cluster-dir.ts';
import { showExample } from './example.ts';
import { singleRun } from './single-run.ts';

const started = performance.now();
try {
  await singleRun(`${clusterDir}.lock`);
  await stage('Stop the cluster of an earlier run', () => Cluster.end(clusterDir));
  const cluster = await Cluster.start({ nodes: 3, keepIn: clusterDir });
  const ownReplicas = { ...values, controller: {} }; // those of the chart, unlike tests
  await stage('Moorage, from its chart', (say) => Moorage.install(cluster, { say, values: ownReplicas }));
  await showExample(cluster).catch(async (error: unknown) => {
    throw new Error(`${messageOf(error)}\n${await cluster.tails()}`, { cause: error });
  });
  const programs = [await linkPlugin(), cluster.binaries.kubernetes.kubectl, await ensureHelm()].map(dirname);
  await cluster.kube.close(); // the cluster keeps running
  console.log(`
Up after ${duration(performance.now() - started)}, and it stays up. To look around:

  export KUBECONFIG=${cluster.kubeconfig} PATH=${programs.join(':')}:$PATH
  kubectl get pods -n moorage-system          Moorage itself, installed by its chart
  kubectl moorage volumes                     the volumes, and where they are
  kubectl moorage ui                          what waits, what is full, what moves, live in a browser
  kubectl moorage migrate data-db-1           move a volume to another node with its data
  kubectl delete pod db-0                     try it yourself; its data stays
  helm test moorage -n moorage-system         test a volume with a pod
  npm run node -- shell node-a lvs            run lvs on a node
  npm run node -- kill node-a                 cut the power of a node, then: npm run node -- boot node-a
  npm run down                                stop the cluster`);
} catch (error) {
  console.error(`\nnpm run up: ${messageOf(error)}`);
  process.exitCode = 1;
}

/** The build that the image was made of has it. */
async function linkPlugin(): Promise<string> {
  const plugin = join(clusterDir, 'bin', 'kubectl-moorage');
  await mkdir(dirname(plugin), { recursive: true });
  await symlink(join(import.meta.dirname, '..', 'dist', 'kubectl-moorage.cjs'), plugin);
  return plugin;
}
