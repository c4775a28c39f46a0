import type { TestContext } from 'node:test';
import { defaultMountBase } from '../../src/api/local-pv.ts';
import { logicalVolumes } from '../../src/api/logical-volume.ts';
import { driverName, logicalVolume, onNodeRemoval, topologyKey } from '../../src/api/names.ts';
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import { type Work, Workers } from '../../src/base/work.ts';
import { annotatedNode } from '../../src/controller/capacity/annotated-capacities.ts';
import { ClaimUsers } from '../../src/controller/claims/claim-users.ts';
import { watchedClaim } from '../../src/controller/claims/volume-claims.ts';
import { podOnNode, scheduled } from '../../src/controller/drain/drained-objects.ts';
import { type MaybeStatic, ourStaticVolume } from '../../src/controller/local-pv/static-volumes.ts';
import { lateDecisions } from '../../src/controller/node-removal/late-decisions.ts';
import { lateStaticDecisions } from '../../src/controller/node-removal/late-static-decisions.ts';
import { NodeRemoval, nodeRemovals } from '../../src/controller/node-removal/node-removal.ts';
import { strandedPods, unscheduled, waitingPod } from '../../src/controller/node-removal/stranded-pods.ts';
import type { KubeClient } from '../../src/kube/client.ts';
import { Informer } from '../../src/kube/informer.ts';
import {
  events,
  type KubeObject,
  nodes,
  type PersistentVolume,
  type PersistentVolumeClaim,
  persistentVolumeClaims,
  persistentVolumes,
  pods,
  type Stored,
} from '../../src/kube/resource.ts';

export interface VolumeOfTest {
  readonly node: string;
  readonly namespace: string;
  readonly reclaimPolicy?: 'Delete' | 'Retain';
  /** The annotation of the claim. */
  readonly annotation?: string;
  /** What its StorageClass said when it was created. */
  readonly classPolicy?: string;
  /** Of its claim. */
  readonly finalizers?: readonly string[];
}

/** Creates a claim, its volume on a node and a pod that uses it, as provisioner, scheduler and kubelet would leave them. */
export async function createVolume(client: KubeClient, name: string, volume: VolumeOfTest): Promise<void> {
  const { node, namespace, reclaimPolicy = 'Delete', annotation, classPolicy, finalizers = [] } = volume;
  const created = await createLogicalVolume(client, name, node);
  const resources = { requests: { storage: '1Gi' } };
  const annotations = annotation === undefined ? {} : { [onNodeRemoval.annotation]: annotation };
  const claim = await client.create(persistentVolumeClaims, {
    metadata: { name, namespace, finalizers: [...finalizers], annotations },
    spec: { accessModes: ['ReadWriteOnce'], storageClassName: 'local', volumeName: name, resources },
  });
  const volumeAttributes = classPolicy === undefined ? {} : { [onNodeRemoval.annotation]: classPolicy };
  await createPersistentVolume(client, claim, { name, node, handle: created, reclaimPolicy, volumeAttributes });
  await client.create(pods, {
    metadata: { name, namespace },
    spec: {
      nodeName: node,
      automountServiceAccountToken: false,
      containers: [{ name: 'main', image: 'pause' }],
      volumes: [{ name: 'data', persistentVolumeClaim: { claimName: name } }],
    },
  });
}

/** As the agent has answered it; returns its volume ID. */
export async function createLogicalVolume(client: KubeClient, name: string, nodeName: string): Promise<string> {
  const { metadata } = await client.create(logicalVolumes, {
    metadata: { name, finalizers: [logicalVolume.finalizer] },
    spec: { name, nodeName, size: '1Gi' },
  });
  const body = { status: { volumeID: metadata.uid, currentSize: '1Gi' } };
  await client.patch(logicalVolumes, name, { type: 'merge', body }, { subresource: 'status' });
  return metadata.uid;
}

interface Provisioned {
  readonly name: string;
  readonly node: string;
  readonly handle: string;
  readonly reclaimPolicy?: 'Delete' | 'Retain';
  readonly volumeAttributes?: Record<string, string>;
}

export async function createPersistentVolume(
  client: KubeClient,
  { metadata }: Stored<PersistentVolumeClaim>,
  { name, node, handle, reclaimPolicy = 'Delete', volumeAttributes = {} }: Provisioned,
): Promise<void> {
  const expression = { key: topologyKey, operator: 'In', values: [node] };
  await client.create(persistentVolumes, {
    metadata: { name },
    spec: {
      accessModes: ['ReadWriteOnce'],
      capacity: { storage: '1Gi' },
      storageClassName: 'local',
      persistentVolumeReclaimPolicy: reclaimPolicy,
      csi: { driver: driverName, volumeHandle: handle, volumeAttributes },
      claimRef: { namespace: metadata.namespace ?? '', name: metadata.name, uid: metadata.uid },
      nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions: [expression] }] } },
    },
  });
}

/** Which of the objects of a name exist and are not being deleted. */
export async function left(client: KubeClient, name: string, namespace: string): Promise<readonly string[]> {
  const found = {
    claim: await client.get(persistentVolumeClaims, name, { namespace }),
    pod: await client.get(pods, name, { namespace }),
    volume: await client.get(persistentVolumes, name),
    logicalVolume: await client.get(logicalVolumes, name),
  };
  return Object.entries(found).flatMap(([kind, object]) =>
    object && !object.metadata.deletionTimestamp ? [kind] : [],
  );
}

/** The Events about one object, as `Reason: note`. */
export async function eventsOf(client: KubeClient, kind: string, name: string): Promise<readonly string[]> {
  const { items } = await client.list(events);
  return items
    .filter(({ reportingController }) => reportingController === driverName)
    .filter(({ regarding }) => regarding?.kind === kind && regarding.name === name)
    .map(({ reason, note }) => `${reason}: ${note}`)
    .sort();
}

export const reporting = (client: KubeClient) => ({
  client,
  reporter: { controller: driverName, instance: 'test' },
  clock: systemClock,
  log: silentLog,
});

/** Runs the leader's work until the test ends, or until it is ended. */
export function lead(t: TestContext, ...work: readonly Work[]): () => Promise<void> {
  const term = new AbortController();
  const workers = new Workers(work, { clock: systemClock, log: silentLog, random: Math.random });
  const leading = workers.lead(term.signal);
  const end = async () => {
    term.abort();
    await leading;
  };
  t.after(end);
  return end;
}

/** Watches of pods, and what they know about the users of claims. */
export function claimUsers(client: KubeClient) {
  const common = { client, clock: systemClock, log: silentLog, resource: pods };
  const running = new Informer({ ...common, fieldSelector: scheduled, project: podOnNode });
  const waiting = new Informer({ ...common, fieldSelector: unscheduled, project: waitingPod });
  return { users: new ClaimUsers({ client, running, waiting }), running, pods: waiting };
}

/** Like `lead`, with watches that start with it and end with it. */
export function leadWith(
  t: TestContext,
  watches: Readonly<Record<string, Pick<Informer<KubeObject>, 'start' | 'stop'>>>,
  ...work: readonly Work[]
): () => Promise<void> {
  for (const watch of Object.values(watches)) watch.start();
  const stopLeading = lead(t, ...work);
  const end = async () => {
    await stopLeading();
    await Promise.all(Object.values(watches).map((watch) => watch.stop()));
  };
  t.after(end);
  return end;
}

function watchedStatic(volume: Stored<PersistentVolume>): MaybeStatic {
  const asStatic = ourStaticVolume(volume, defaultMountBase);
  return asStatic ? { asStatic } : {};
}

/** The controller's work for removed nodes, with watches of its own, until the test ends or until it is ended. */
export function leadRemovals(t: TestContext, client: KubeClient): () => Promise<void> {
  const common = { client, clock: systemClock, log: silentLog };
  const watches = {
    volumes: new Informer({ ...common, resource: logicalVolumes }),
    nodes: new Informer({ ...common, resource: nodes, project: annotatedNode }),
    claims: new Informer({ ...common, resource: persistentVolumeClaims, project: watchedClaim }),
    pods: new Informer({ ...common, resource: pods, fieldSelector: unscheduled, project: waitingPod }),
    persistentVolumes: new Informer({ ...common, resource: persistentVolumes, project: watchedStatic }),
  };
  const collaborators = { ...reporting(client), ...watches };
  return leadWith(
    t,
    watches,
    nodeRemovals({ nodes: watches.nodes, removal: new NodeRemoval({ ...collaborators, keepObjects: false }) }),
    lateDecisions(collaborators),
    lateStaticDecisions(collaborators),
    strandedPods(collaborators),
  );
}
