import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { logicalVolumes } from '../../src/api/logical-volume.ts';
import { driverName, selectedNodeAnnotation } from '../../src/api/names.ts';
import { systemClock } from '../../src/base/clock.ts';
import { ManualClock } from '../../src/base/testing/manual-clock.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import { Workers } from '../../src/base/work.ts';
import { ignoredClasses } from '../../src/controller/claims/ignored-classes.ts';
import { VolumeClaims, watchedClaim } from '../../src/controller/claims/volume-claims.ts';
import { ourPersistentVolume } from '../../src/controller/orphaned-objects.ts';
import type { KubeClient } from '../../src/kube/client.ts';
import { Informer, type InformerOptions } from '../../src/kube/informer.ts';
import {
  events,
  type KubeObject,
  persistentVolumeClaims,
  persistentVolumes,
  type Stored,
} from '../../src/kube/resource.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { newNamespace, startApiServer } from './api-server.ts';

const api = await startApiServer();
const { admin } = api;
const signal = new AbortController().signal;
const namespace = await newNamespace(api, 'shop');
await api.cluster.kubectl('apply', `-f${join(import.meta.dirname, '..', '..', 'deploy', 'crd.yaml')}`);
await api.cluster.kubectl('wait', '--for=condition=Established', 'crd/logicalvolumes.topolvm.io');
const watched = watch({ resource: persistentVolumeClaims, project: watchedClaim });
const claims = new VolumeClaims({ client: admin, watched });

test('a claim with a selected node is moved to another node', async () => {
  await claim('chosen', 'node-b');
  await claims.chooseNode('shop/chosen', 'node-a', signal);
  assert.equal(await nodeOf('chosen'), 'node-a');
});

test('a claim without a selected node stays as it is, and a deleted one is ignored', async () => {
  await claim('immediate');
  await claims.chooseNode('shop/immediate', 'node-a', signal);
  assert.equal(await nodeOf('immediate'), undefined);
  await claims.chooseNode('shop/gone', 'node-a', signal);
});

test('a selected node that was set or removed meanwhile is kept', async () => {
  await claim('contested', 'node-b');
  const afterReading = async (change: string | null) => {
    const client: Pick<KubeClient, 'get' | 'patch'> = {
      get: async (...request) => {
        const read = await admin.get(...request);
        await choose('contested', change);
        return read;
      },
      patch: (...request) => admin.patch(...request),
    };
    await new VolumeClaims({ client, watched }).chooseNode('shop/contested', 'node-a', signal);
    return nodeOf('contested');
  };
  assert.equal(await afterReading('node-c'), 'node-c');
  assert.equal(await afterReading(null), undefined);
});

test('the class of a claim is known, whether the watch has reported the claim or not', async () => {
  await claim('plain');
  await claim('limited', undefined, { volumeAttributesClassName: 'bronze' });
  await watched.until('shop/limited', (found) => found !== undefined, signal);
  for (const known of [claims, new VolumeClaims({ client: admin, watched: { get: () => undefined } })]) {
    assert.equal(await known.attributesClassOf('shop/limited', signal), 'bronze');
    assert.equal(await known.attributesClassOf('shop/plain', signal), undefined);
    assert.equal(await known.attributesClassOf('shop/gone', signal), undefined);
  }
});

test('a bound claim gets an Event if it names a class and no csi-resizer acts on it', async (t) => {
  await admin.create(persistentVolumes, {
    metadata: { name: 'pvc-1' },
    spec: {
      accessModes: ['ReadWriteOnce'],
      capacity: { storage: '1Gi' },
      csi: { driver: driverName, volumeHandle: 'uid-1' },
      claimRef: { namespace, name: 'data' },
    },
  });
  await admin.create(logicalVolumes, {
    metadata: { name: 'pvc-1' },
    spec: { name: 'pvc-1', nodeName: 'node-a', size: '1Gi' },
  });
  await claim('data', undefined, { volumeName: 'pvc-1' });
  const found = async () => admin.get(persistentVolumeClaims, 'data', { namespace });
  await eventually('the claim is bound', async () => (await found())?.status?.phase === 'Bound');
  const volumes = watch({ resource: persistentVolumes, project: ourPersistentVolume });
  await volumes.whenSynced();

  const clock = new ManualClock();
  const reporter = { controller: driverName, instance: 'test' };
  const work = ignoredClasses({ client: admin, claims: watched, persistentVolumes: volumes, reporter, clock });
  const stop = new AbortController();
  const leading = new Workers([work], { clock, log: silentLog, random: () => 0 }).lead(stop.signal);
  t.after(async () => {
    stop.abort();
    await leading;
  });
  const body = { spec: { volumeAttributesClassName: 'bronze' } };
  await admin.patch(persistentVolumeClaims, 'data', { type: 'merge', body }, { namespace });
  await watched.until('shop/data', (seen) => seen?.named?.missingOn === 'pvc-1', signal);
  assert.deepEqual((await admin.list(events, { namespace })).items.filter(isOurs), []);
  clock.advance(30_000);
  const event = await eventually('the Event', async () => (await admin.list(events, { namespace })).items.find(isOurs));
  assert.equal(event.regarding?.uid, (await found())?.metadata.uid);
  assert.match(event.note ?? '', /^VolumeAttributesClass bronze is not applied.*csi-provisioner 6 and csi-resizer 2/);

  function isOurs({ reason }: { readonly reason?: string }): boolean {
    return reason === 'ClassIgnored';
  }
});

function watch<T extends KubeObject, P = Stored<T>>(
  options: Pick<InformerOptions<T, P>, 'resource' | 'project'>,
): Informer<T, P> {
  const informer = new Informer<T, P>({ ...options, client: admin, clock: systemClock, log: silentLog });
  informer.start();
  after(() => informer.stop());
  return informer;
}

async function claim(name: string, node?: string, spec: object = {}): Promise<void> {
  await admin.create(persistentVolumeClaims, {
    metadata: { name, namespace, ...(node && { annotations: { [selectedNodeAnnotation]: node } }) },
    spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } }, ...spec },
  });
}

async function choose(name: string, node: string | null): Promise<void> {
  const body = { metadata: { annotations: { [selectedNodeAnnotation]: node } } };
  await admin.patch(persistentVolumeClaims, name, { type: 'merge', body }, { namespace });
}

async function nodeOf(name: string): Promise<string | undefined> {
  const found = await admin.get(persistentVolumeClaims, name, { namespace });
  return found?.metadata.annotations?.[selectedNodeAnnotation];
}
