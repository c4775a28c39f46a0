import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, type TestContext, test } from 'node:test';
import { logicalVolumes } from '../../src/api/logical-volume.ts';
import { claimKey, driverName, logicalVolume, neverUsedAnnotation, unclaimedAnnotation } from '../../src/api/names.ts';
import { systemClock } from '../../src/base/clock.ts';
import type { Log } from '../../src/base/log.ts';
import { ManualClock } from '../../src/base/testing/manual-clock.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import { Workers } from '../../src/base/work.ts';
import { volumeEvents } from '../../src/controller/events/volume-events.ts';
import { ourPersistentVolume } from '../../src/controller/orphaned-objects.ts';
import { unclaimedVolumes } from '../../src/controller/unclaimed/unclaimed-volumes.ts';
import { filesystemTag, newVolumeTags } from '../../src/engine/names-and-tags.ts';
import type { NewVolume, Volume } from '../../src/engine/pool.ts';
import { InMemoryPool } from '../../src/engine/testing/in-memory-pool.ts';
import type { KubeClient } from '../../src/kube/client.ts';
import { Informer } from '../../src/kube/informer.ts';
import {
  type PersistentVolumeClaim,
  persistentVolumeClaims,
  persistentVolumes,
  type Stored,
} from '../../src/kube/resource.ts';
import { volumeWork } from '../../src/node/reconcile/logical-volume-reconciler.ts';
import { unclaimedVolumes as answers } from '../../src/node/reconcile/unclaimed-volumes.ts';
import { node } from '../../src/volumes/testing/in-memory-node.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { connect, newNamespace, startApiServer, withToken } from './api-server.ts';
import { createPersistentVolume, eventsOf } from './removed-nodes.ts';

const deploy = join(import.meta.dirname, '..', '..', 'deploy');
const api = await startApiServer();
const { cluster, connection, admin } = api;
await cluster.kubectl('apply', ...['namespace', 'crd', 'rbac'].map((name) => `-f${join(deploy, `${name}.yaml`)}`));
await cluster.kubectl('wait', '--for=condition=Established', 'crd/logicalvolumes.topolvm.io');
const namespace = await newNamespace(api, 'shop');
const minuteMs = 60_000;

/** Only the rights of the ServiceAccount. */
async function clientOf(account: string): Promise<KubeClient> {
  const token = (await cluster.kubectl('-n', 'moorage-system', 'create', 'token', account)).trim();
  return connect({ after }, await withToken(connection, token));
}
const [controller, agent] = [await clientOf('moorage-controller'), await clientOf('moorage-node')];

/** Tags new volumes as real pools do. */
class TaggingPool extends InMemoryPool {
  override async create(wanted: NewVolume): Promise<Volume> {
    return super.create({ ...wanted, tags: newVolumeTags(wanted) });
  }
}

interface Parts {
  /** Replaces methods of the controller's client. */
  readonly client?: Partial<KubeClient>;
  /** The agent creates volumes, and does not answer. */
  readonly isSilent?: boolean;
  /** The controller's watch has not reported any PersistentVolume yet. */
  readonly isBehind?: boolean;
}

let nodeCount = 0;

/** A controller, and the agent of a node whose pool is in memory. Only the controller's time passes at will. */
async function start(t: TestContext, { client = {}, isSilent = false, isBehind = false }: Parts = {}) {
  nodeCount += 1;
  const nodeName = `node-${nodeCount}`;
  const clock = new ManualClock(Date.now());
  const shared = { clock: systemClock, log: silentLog };
  const pool = new TaggingPool('ssd', 1024n ** 3n);
  const { volumes: published, pools } = await node(t, pool);
  const volumes = new Informer({ client: controller, resource: logicalVolumes, ...shared });
  const watched = new Informer({
    client: controller,
    resource: persistentVolumes,
    project: ourPersistentVolume,
    ...shared,
  });
  const behind = { get: () => undefined, list: () => [], onChange: () => () => {}, whenSynced: async () => {} };
  const own = new Informer({
    client: agent,
    resource: logicalVolumes,
    fieldSelector: `spec.nodeName=${nodeName}`,
    ...shared,
  });
  const lookups: string[] = [];
  const leading = {
    get: async (...words: Parameters<KubeClient['get']>) => {
      lookups.push(words[1]);
      return controller.get(...words);
    },
    list: controller.list.bind(controller),
    patch: controller.patch.bind(controller),
    delete: controller.delete.bind(controller),
    ...client,
  } as KubeClient;
  const reporter = { controller: driverName, instance: 'test' };
  const leader = new Workers(
    [
      unclaimedVolumes({
        client: leading,
        volumes,
        persistentVolumes: isBehind ? behind : watched,
        clock,
        log: silentLog,
      }),
      volumeEvents({ client: controller, volumes, reporter, clock: systemClock }),
    ],
    { clock, log: silentLog, random: Math.random },
  );
  const logged: string[] = [];
  const log = { ...silentLog, info: (_: object, message: string) => void logged.push(message) } as Log;
  const ofNode = new Workers(
    [
      volumeWork({ client: agent, volumes: own, pools, log: silentLog }),
      ...(isSilent ? [] : [answers({ client: agent, volumes: own, published, log })]),
    ],
    { ...shared, random: Math.random },
  );
  const stop = new AbortController();
  const leads = leader.lead(stop.signal);
  ofNode.start();
  for (const informer of [volumes, watched, own]) informer.start();
  t.after(async () => {
    stop.abort();
    await Promise.all([leads, ofNode.stop(0)]);
    await Promise.all([volumes, watched, own].map((informer) => informer.stop()));
  });

  /** As CreateVolume leaves it. */
  const provision = async ({ metadata: { name: claim, uid } }: Stored<PersistentVolumeClaim>) => {
    const name = `pvc-${uid}`;
    const { metadata } = await admin.create(logicalVolumes, {
      metadata: { name, finalizers: [logicalVolume.finalizer], annotations: { [claimKey]: `${namespace}/${claim}` } },
      spec: { name, nodeName, size: '1Mi', deviceClass: 'ssd' },
    });
    await eventually('the volume is created', async () => (await admin.get(logicalVolumes, name))?.status?.volumeID);
    return { name, id: metadata.uid };
  };
  /** Lets time pass until it is so; returns how much. */
  const passesUntil = async (what: string, condition: () => Promise<unknown>): Promise<number> => {
    const startedMs = clock.now();
    await eventually(what, async () => {
      if (await condition()) return true;
      clock.advance(15 * minuteMs);
      return false;
    });
    return clock.now() - startedMs;
  };
  return { pool, nodeName, lookups, logged, provision, passesUntil };
}

const claimNamed = (name: string) =>
  admin.create(persistentVolumeClaims, {
    metadata: { name, namespace },
    spec: { accessModes: ['ReadWriteOnce'], storageClassName: 'local', resources: { requests: { storage: '1Mi' } } },
  });
/** A claim that is deleted at once. */
const vanished = async (name: string) => {
  const claim = await claimNamed(name);
  await admin.delete(persistentVolumeClaims, name, { namespace });
  await eventually(
    `claim ${name} is gone`,
    async () => !(await admin.get(persistentVolumeClaims, name, { namespace })),
  );
  return claim;
};
const has = (name: string, annotation: string) => async () =>
  annotation in ((await admin.get(logicalVolumes, name))?.metadata.annotations ?? {});
const isGone = (name: string) => async () => (await admin.get(logicalVolumes, name)) === undefined;
const isKept = async (name: string) =>
  (await admin.get(logicalVolumes, name))?.metadata.deletionTimestamp === undefined;

test('a volume whose claim vanished while it was created is removed if it was never used', async (t) => {
  const { pool, provision, passesUntil } = await start(t);
  const { name, id } = await provision(await vanished('db'));
  await claimNamed('db'); // a newer one, with another uid
  assert.ok((await passesUntil('it is removed', isGone(name))) >= 75 * minuteMs, 'csi-provisioner may have retried');
  assert.equal(pool.get(id), undefined);
  const removal = `UnclaimedVolumeRemoved: removed volume ${name} from node .*, and it was never used$`;
  await eventually('an Event says so', async () =>
    (await eventsOf(admin, 'PersistentVolumeClaim', 'db')).some((event) => new RegExp(removal).test(event)),
  );
});

test('a volume without a claim stays if nothing proves that it was never used', async (t) => {
  const { pool, provision, passesUntil, logged } = await start(t);
  const { name, id } = await provision(await vanished('used'));
  await pool.addTags(id, [filesystemTag('ext4')]);
  await passesUntil('the node is asked', has(name, unclaimedAnnotation));
  await eventually('the node has looked', async () => logged.some((line) => line.endsWith('; it stays')));
  assert.equal(await has(name, neverUsedAnnotation)(), false);
  assert.ok(await isKept(name));
  assert.ok(pool.get(id));
});

test('while the claim exists, nothing is asked; once it is deleted, the time counts from then on', async (t) => {
  const { provision, passesUntil, lookups } = await start(t);
  const claim = await claimNamed('waiting');
  const { name } = await provision(claim);
  await passesUntil('the claim was looked up for hours', async () => lookups.length > 3);
  assert.equal(await has(name, unclaimedAnnotation)(), false);
  await admin.delete(persistentVolumeClaims, 'waiting', { namespace });
  assert.ok((await passesUntil('it is removed', isGone(name))) >= 60 * minuteMs);
});

test('a volume that gets a PersistentVolume is left alone', async (t) => {
  const { nodeName, provision, passesUntil } = await start(t, { isSilent: true });
  const claim = await vanished('imported');
  const { name, id } = await provision(claim);
  await passesUntil('the node is asked', has(name, unclaimedAnnotation));
  await createPersistentVolume(admin, claim, { name: 'by-hand', node: nodeName, handle: id, reclaimPolicy: 'Retain' });
  await eventually('the question is withdrawn', async () => !(await has(name, unclaimedAnnotation)()));
  assert.ok(await isKept(name));
});

test('before a volume is deleted, its PersistentVolume is looked for without the watch', async (t) => {
  const lists: string[] = [];
  const list: KubeClient['list'] = async (resource, options) => {
    lists.push(resource.kind);
    return controller.list(resource, options);
  };
  const { nodeName, provision, passesUntil } = await start(t, { isBehind: true, client: { list } });
  const claim = await vanished('late');
  const { name, id } = await provision(claim);
  await createPersistentVolume(admin, claim, { name: 'late', node: nodeName, handle: id, reclaimPolicy: 'Retain' });
  await passesUntil('the volume could be deleted', async () => lists.includes('PersistentVolume'));
  await eventually('the node has answered', has(name, neverUsedAnnotation));
  assert.ok(await isKept(name));
});

test('a LogicalVolume that changed since it was read is not deleted', async (t) => {
  const outcomes: string[] = [];
  const change = { metadata: { annotations: { since: 'changed' } } };
  const list: KubeClient['list'] = async (...words) => {
    await admin.patch(logicalVolumes, name, { type: 'merge', body: change }); // changes nothing the second time
    return controller.list(...words);
  };
  const remove: KubeClient['delete'] = async (...words) => {
    try {
      const isDeleted = await controller.delete(...words);
      outcomes.push('deleted');
      return isDeleted;
    } catch (error) {
      outcomes.push(String((error as { reason?: string }).reason));
      throw error;
    }
  };
  const { provision, passesUntil } = await start(t, { client: { list, delete: remove } });
  const { name } = await provision(await vanished('changed'));
  await passesUntil('it is removed', isGone(name));
  assert.deepEqual([...new Set(outcomes)], ['Conflict', 'deleted'], 'it tries until its watch has reported the change');
});
