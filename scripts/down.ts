// npm run down: stops everything that `npm run up` started, even if that did not finish.
import { existsSync } from 'node:fs';
import { Cluster } from '../worlds/cluster/cluster.ts';
import { clusterDir } from './cluster-dir.ts';
import { singleRun } from './single-run.ts';

await singleRun(`${clusterDir}.lock`);
const wasThere = existsSync(clusterDir);
await Cluster.end(clusterDir);
console.log(wasThere ? 'The cluster is stopped and deleted.' : 'There is no cluster to stop.');
