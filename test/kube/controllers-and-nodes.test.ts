import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { logicalVolumes } from '../../src/api/logical-volume.ts';
import { logicalVolume } from '../../src/api/names.ts';
import { systemClock } from '../../src/base/clock.ts';
import { ManualClock } from '../../src/base/testing/manual-clock.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import { Workers } from '../../src/base/work.ts';
import { refusedVolumes } from '../../src/controller/refused-volumes.ts';
import { noCopies } from '../../src/controller/testing/in-memory-store.ts';
import { LogicalVolumeObjects } from '../../src/controller/volumes/logical-volume-objects.ts';
import { LogicalVolumeSnapshots } from '../../src/controller/volumes/logical-volume-snapshots.ts';
import { LogicalVolumeStore } from '../../src/controller/volumes/logical-volume-store.ts';
import type { StoredVolume, WantedVolume } from '../../src/csi/controller/volume-store.ts';
import { VolumeHasSnapshots } from '../../src/engine/errors.ts';
import { Pools } from '../../src/engine/pools.ts';
import { InMemoryPool } from '../../src/engine/testing/in-memory-pool.ts';
import type { KubeClient } from '../../src/kube/client.ts';
import { Informer } from '../../src/kube/informer.ts';
import { volumeWork } from '../../src/node/reconcile/logical-volume-reconciler.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { connect, startApiServer, withToken } from './api-server.ts';

const mebi = 1024n ** 2n;
const deploy = join(import.meta.dirname, '..', '..', 'deploy');
const { cluster, connection, admin } = await startApiServer();
await cluster.kubectl('apply', ...['namespace', 'crd', 'rbac'].map((name) => `-f${join(deploy, `${name}.yaml`)}`));
await cluster.kubectl('wait', '--for=condition=Established', 'crd/logicalvolumes.topolvm.io');

/** A client with only the rights of the ServiceAccount. */
async function clientOf(account: string): Promise<KubeClient> {
  const token = (await cluster.kubectl('-n', 'moorage-system', 'create', 'token', account)).trim();
  const client = connect({ after }, await withToken(connection, token));
  await eventually('its rights are in effect', () => client.list(logicalVolumes));
  return client;
}

function watch(client: KubeClient, fieldSelector?: string) {
  const watched = new Informer({
    client,
    resource: logicalVolumes,
    clock: systemClock,
    log: silentLog,
    ...(fieldSelector && { fieldSelector }),
  });
  watched.start();
  after(() => watched.stop());
  return watched;
}

async function startController() {
  const client = await clientOf('moorage-controller');
  const objects = new LogicalVolumeObjects({ client, watched: watch(client) });
  return {
    volumes: new LogicalVolumeStore({ objects, copies: noCopies, clock: systemClock }),
    snapshots: new LogicalVolumeSnapshots(objects),
  };
}

/** A real agent, except for its pool, which is 100 MiB in memory. */
async function startNode(nodeName: string): Promise<InMemoryPool> {
  const client = await clientOf('moorage-node');
  const pool = new InMemoryPool('ssd', 100n * mebi);
  const pools = new Pools([pool], 'ssd');
  const volumes = watch(client, `spec.nodeName=${nodeName}`);
  const options = { clock: systemClock, log: silentLog, random: Math.random };
  const work = new Workers([volumeWork({ client, volumes, pools, log: silentLog })], options);
  work.start();
  after(() => work.stop(0));
  return pool;
}

const [one, other] = [await startController(), await startController()];
const [a, b] = [await startNode('a'), await startNode('b')];

const inTime = () => AbortSignal.timeout(120_000);
const wanted = (name: string, sizeBytes: bigint, nodeName = 'a'): WantedVolume => ({
  name,
  nodeNames: [nodeName],
  deviceClass: '',
  lvcreateOptionClass: '',
  isEncrypted: false,
  sizeBytes,
});

async function objectsLeft(): Promise<number> {
  return (await admin.list(logicalVolumes)).items.length;
}

test('two controllers that get the same request at once create one volume', async () => {
  const names = Array.from({ length: 20 }, (_, index) => `burst-${index}`);
  const ask = ({ volumes }: typeof one, name: string, index: number) =>
    volumes.create(wanted(name, mebi, index % 2 === 0 ? 'a' : 'b'), inTime());
  const created: StoredVolume[][] = await Promise.all(
    [one, other].map((controller) => Promise.all(names.map((name, index) => ask(controller, name, index)))),
  );
  assert.deepEqual(created[0], created[1]);
  assert.deepEqual([a.list().length, b.list().length], [10, 10]);

  const ids = created[0]?.map(({ id }) => id) ?? [];
  await Promise.all([one, other].flatMap(({ volumes }) => ids.map((id) => volumes.remove(id, inTime()))));
  assert.deepEqual([a.list().length, b.list().length, await objectsLeft()], [0, 0, 0]);
});

test('a volume is created, grown, copied and deleted', async () => {
  const { id } = await one.volumes.create(wanted('db', 10n * mebi), inTime());
  await other.volumes.grow(id, 20n * mebi, inTime());
  assert.equal(a.get(id)?.sizeBytes, 20n * mebi);

  const before = Date.now();
  const snapshot = await one.snapshots.create({ name: 'nightly', sourceId: id }, inTime());
  assert.deepEqual([snapshot.sizeBytes, a.get(snapshot.id)?.readOnly], [20n * mebi, true]);
  assert.ok(Math.abs(snapshot.createdAt.getTime() - before) < 60_000, 'the API server says when');
  await one.volumes.grow(id, 25n * mebi, inTime());
  assert.deepEqual(await other.snapshots.create({ name: 'nightly', sourceId: id }, inTime()), snapshot);

  const source = { kind: 'snapshot', id: snapshot.id } as const;
  const restored = await other.volumes.create({ ...wanted('restored', 22n * mebi), source }, inTime());
  assert.deepEqual([a.get(restored.id)?.origin, restored.sizeBytes], [snapshot.id, 22n * mebi]);
  assert.deepEqual(restored.source, source);
  await assert.rejects(one.volumes.create({ ...wanted('small', 19n * mebi), source }, inTime()), {
    code: 'OutOfRange',
    message: /^node a: snapshot .* cannot be 19 MiB: its source has 20 MiB; request at least/,
  });

  await one.volumes.remove(id, inTime());
  await one.snapshots.remove(snapshot.id, inTime());
  await other.volumes.remove(restored.id, inTime());
  assert.deepEqual([a.list().length, await objectsLeft()], [0, 0]);
});

test('growth beyond the free space fails at once, and can be lowered, retried or withdrawn', async () => {
  const { id } = await one.volumes.create(wanted('greedy', 10n * mebi), inTime());
  const filler = await one.volumes.create(wanted('filler', 60n * mebi), inTime());
  const refusal = { code: 'ResourceExhausted', message: /^node a: device class ssd has 30 MiB free/ };
  await assert.rejects(one.volumes.grow(id, 90n * mebi, inTime()), refusal);
  await assert.rejects(other.volumes.grow(id, 90n * mebi, inTime()), refusal);
  assert.equal((await one.volumes.grow(id, 15n * mebi, inTime())).sizeBytes, 15n * mebi);

  await assert.rejects(one.volumes.grow(id, 90n * mebi, inTime()), { code: 'ResourceExhausted' });
  await one.volumes.grow(id, 15n * mebi, inTime());
  assert.equal((await admin.get(logicalVolumes, 'greedy'))?.spec.size, '15Mi', 'nobody wants it larger any more');
  await one.volumes.remove(filler.id, inTime());
  assert.equal(a.get(id)?.sizeBytes, 15n * mebi);
  assert.equal((await one.volumes.grow(id, 90n * mebi, inTime())).sizeBytes, 90n * mebi);
  await one.volumes.remove(id, inTime());
});

test('a volume with snapshots that depend on it is not removed, and reports so until they are gone', async (t) => {
  const { id } = await one.volumes.create(wanted('origin', 10n * mebi), inTime());
  await assert.rejects(one.volumes.grow(id, 200n * mebi, inTime()), { code: 'ResourceExhausted' });
  const removal = t.mock.method(a, 'remove', async () => {
    throw new VolumeHasSnapshots(id, ['nightly']);
  });
  await assert.rejects(one.volumes.remove(id, inTime()), {
    code: 'FailedPrecondition',
    message: /^node a: volume .* has the snapshots nightly, which depend on it; it stays as long as they do$/,
  });
  assert.ok(a.get(id), 'nothing was lost');
  removal.mock.restore(); // the snapshots are gone
  await eventually('the node has removed the volume', async () => (await objectsLeft()) === 0);
  await other.volumes.remove(id, inTime());
});

test('limits are stored for the node', async () => {
  const limits = { readBytesPerSecond: mebi };
  const { id } = await one.volumes.create({ ...wanted('limited', mebi), limits }, inTime());
  await other.volumes.modify(id, { writeOperationsPerSecond: 5n }, inTime());
  const { metadata } = (await admin.get(logicalVolumes, 'limited')) ?? {};
  assert.deepEqual(metadata?.annotations, { 'moorage.dev/write-operations-per-second': '5' });
  await other.volumes.remove(id, inTime());
});

test('a request that the node rejected and nobody waits for is deleted', async (t) => {
  const client = await clientOf('moorage-controller');
  const volumes = watch(client);
  const metadata = { name: 'left', finalizers: [logicalVolume.finalizer] };
  await client.create(logicalVolumes, { metadata, spec: { name: 'left', nodeName: 'a', size: '1Ti' } });
  await volumes.until('left', (found) => Boolean(found?.status?.code), inTime());

  const clock = new ManualClock(Date.now() + 11 * 60_000);
  const stop = new AbortController();
  const work = [refusedVolumes({ client, volumes, clock, log: silentLog })];
  const running = new Workers(work, { clock, log: silentLog, random: Math.random }).lead(stop.signal);
  t.after(async () => {
    stop.abort();
    await running;
  });
  await volumes.until('left', (found) => found === undefined, inTime());
});
