// start-cluster.ts dies|stays: starts a cluster that dies with us or outlives us, prints its directory, and waits.
import { Cluster } from '../../worlds/cluster/cluster.ts';
import { addOwner, newRunDir } from '../../worlds/host/run-dir.ts';

const outlivesUs = process.argv[2] === 'stays';
const cluster = await Cluster.start({ nodes: 1, ...(outlivesUs && { keepIn: await dirOfParent() }) });
console.log(cluster.dir);
setInterval(() => {}, 60_000);

/** The process that started us ends the cluster, so nobody else may remove it. */
async function dirOfParent(): Promise<string> {
  const dir = await newRunDir('kept');
  await addOwner(dir, process.ppid);
  return dir;
}
