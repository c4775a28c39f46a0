import { join } from 'node:path';
import { logicalVolumes } from '../src/api/logical-volume.ts';
import { systemClock } from '../src/base/clock.ts';
import { silentLog } from '../src/base/testing/silent-log.ts';
import { Informer } from '../src/kube/informer.ts';
import { type KubeObject, persistentVolumeClaims, pods, type Resource } from '../src/kube/resource.ts';
import type { Cluster } from '../worlds/cluster/cluster.ts';
import { isReady } from '../worlds/cluster/ready.ts';
import { duration } from '../worlds/host/progress.ts';

const example = join(import.meta.dirname, '..', 'deploy', 'examples', 'statefulset.yaml');
const namespace = 'default';
const replicas = ['db-0', 'db-1'];
const patience = () => AbortSignal.timeout(90_000);

/** A StatefulSet gets its volumes, loses a pod, and keeps its data; printed step by step, with times. */
export async function showExample(cluster: Cluster): Promise<void> {
  const client = cluster.kube;
  const watch = <T extends KubeObject>(resource: Resource<T>) => {
    const informer = new Informer({ client, resource, clock: systemClock, log: silentLog });
    informer.start();
    return informer;
  };
  const watched = { pods: watch(pods), claims: watch(persistentVolumeClaims), volumes: watch(logicalVolumes) };
  try {
    await Promise.all(Object.values(watched).map((informer) => informer.whenSynced(patience())));
    const started = performance.now();
    await cluster.kubectl('apply', '-f', example);
    console.log('\nA StatefulSet requests two volumes:\n');
    console.log(row('CLAIM', 'VOLUME', 'NODE', 'POD', 'CREATED', 'POD READY'));
    for (const name of replicas) {
      const claim = await watched.claims.until(`${namespace}/data-${name}`, (found) => found !== undefined, patience());
      const claimed = performance.now();
      const volume = `pvc-${claim?.metadata.uid}`;
      const created = await watched.volumes.until(volume, (found) => Boolean(found?.status?.volumeID), patience());
      const volumeCreated = duration(performance.now() - claimed);
      await watched.pods.until(`${namespace}/${name}`, isReady, patience());
      const podReady = duration(performance.now() - claimed);
      console.log(row(`data-${name}`, volume, created?.spec.nodeName ?? '', name, volumeCreated, podReady));
    }
    console.log(
      `\nBoth run after ${duration(performance.now() - started)}. Times count from the creation of the claim.`,
    );

    const [victim = ''] = replicas;
    const key = `${namespace}/${victim}`;
    const before = watched.pods.get(key);
    const written = (await lines(cluster, victim)).at(0);
    console.log(`\nNow ${victim} is deleted …`);
    const deleted = performance.now();
    await cluster.kubectl('delete', 'pod', victim, '--wait=false');
    const after = await watched.pods.until(
      key,
      (pod) => isReady(pod) && pod?.metadata.uid !== before?.metadata.uid,
      patience(),
    );
    console.log(
      `… and a new one is Ready after ${duration(performance.now() - deleted)}, on ${after?.spec?.nodeName}.`,
    );
    const kept = await lines(cluster, victim);
    if (kept[0] !== written) throw new Error(`the volume of ${victim} has lost its data: it starts with ${kept[0]}`);
    console.log(`Its volume has the lines of both:\n\n  ${kept.join('\n  ')}`);
  } finally {
    await Promise.all(Object.values(watched).map((informer) => informer.stop()));
  }
}

async function lines(cluster: Cluster, pod: string): Promise<string[]> {
  return (await cluster.kubectl('exec', pod, '--', 'cat', '/data/log')).trimEnd().split('\n');
}

function row(...[claim, volume, node, pod, created, ready]: [string, string, string, string, string, string]): string {
  return `  ${claim.padEnd(15)}${volume.padEnd(42)}${node.padEnd(8)}${pod.padEnd(9)}${created.padStart(12)}${ready.padStart(11)}`;
}
