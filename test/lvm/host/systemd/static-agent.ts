/**
 * node static-agent.ts NAME [remove]: processes the static volume NAME in volume group vg, and then removes it if told so, as the
 * agent does with --local-pv-mounts=systemd, in the machine. Prints the annotations of each answer as JSON on a line.
 */
import { systemClock } from '../../../../src/base/clock.ts';
import { run } from '../../../../src/base/exec.ts';
import { silentLog } from '../../../../src/base/testing/silent-log.ts';
import { Workers } from '../../../../src/base/work.ts';
import { noDeviceClasses } from '../../../../src/engine/config/device-classes-yaml.ts';
import { poolOfGroup } from '../../../../src/engine/pool-of-group.ts';
import { StorageEngine } from '../../../../src/engine/storage-engine.ts';
import { type PersistentVolume, persistentVolumes } from '../../../../src/kube/resource.ts';
import { InMemoryApi } from '../../../../src/kube/testing/in-memory-api.ts';
import { localPvJob } from '../../../../src/node/local-pv/local-pv-job.ts';

const [name = '', order] = process.argv.slice(2);
const prefix = 'local-pv.k8s.portavita.net/';
const { signal } = new AbortController();
const shared = { run, clock: systemClock, log: silentLog };

const config = { ...noDeviceClasses, lvmCommand: ['lvm'] as const };
const engine = await StorageEngine.startWith(config, { ...shared, stateDirectory: '/tmp', env: process.env }, signal);
const api = new InMemoryApi<PersistentVolume>();
await api.create(persistentVolumes, {
  metadata: {
    name,
    finalizers: ['moorage.dev/local-pv'],
    annotations: { [`${prefix}node`]: 'a', [`${prefix}vg`]: 'vg' },
  },
  spec: { local: { path: `/mnt/pv/${name}` }, capacity: { storage: '32Mi' } },
});

const options = { mountBase: '/mnt/pv', mounts: 'systemd', defaultsName: '', namespace: '' } as const;
const job = localPvJob('a', { ...options, releases: false, sanityChecks: false }, { ...shared, client: api.client });
const { work } = await job.begin({
  pools: engine.pools,
  allPools: engine.allPools,
  serveGroups: (names, signal) => engine.serveGroups(names, signal),
  poolOfGroup: (group) => poolOfGroup(engine.allPools, engine.deviceClasses(), group),
});
new Workers(work, { ...shared, random: () => 0 }).start();
job.volumes.start();
await answer(`${prefix}status`);
if (order === 'remove') {
  await api.delete(persistentVolumes, name);
  await answer('moorage.dev/removed');
}
process.exit();

async function answer(annotation: string): Promise<void> {
  const isThere = (pv: PersistentVolume | undefined) => pv?.metadata?.annotations?.[annotation] !== undefined;
  const pv = await job.volumes.until(name, isThere, AbortSignal.timeout(150_000));
  console.log(JSON.stringify(pv?.metadata.annotations));
}
