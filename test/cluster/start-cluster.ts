// start-cluster.ts dies|stays: starts a cluster that dies with us or outlives us, prints its directory, and waits.
import { Cluster } from '../worlds/cluster/cluster.ts';
import { newRunDir } from '../worlds/host/run-dir.ts';

const outlivesUs = process.argv[2] === 'stays';
const cluster = await Cluster.start({ nodes: 1, ...(outlivesUs && { keepIn: await newRunDir('kept') }) });
console.log(cluster.dir);
setInterval(() => {}, 60_000);
