import assert from 'node:assert/strict';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after } from 'node:test';
import { logicalVolumes } from '../../src/api/logical-volume.ts';
import { capacityAnnotationPrefix, defaultCapacityAnnotation, driverName, topologyKey } from '../../src/api/names.ts';
import { systemClock } from '../../src/base/clock.ts';
import { parseQuantity } from '../../src/base/quantity.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import { Workers } from '../../src/base/work.ts';
import { Pools } from '../../src/engine/pools.ts';
import { InMemoryPool } from '../../src/engine/testing/in-memory-pool.ts';
import type { ReasonCode } from '../../src/explain/explanation.ts';
import type { KubeClient } from '../../src/kube/client.ts';
import { Informer } from '../../src/kube/informer.ts';
import {
  csiDrivers,
  csiNodes,
  csiStorageCapacities,
  type Event,
  events,
  nodes,
  type PersistentVolumeClaim,
  type Pod,
  persistentVolumeClaims,
  pods,
  type StorageClass,
  storageClasses,
} from '../../src/kube/resource.ts';
import { volumeWork } from '../../src/node/reconcile/logical-volume-reconciler.ts';
import type { Sidecar } from '../../worlds/cluster/binaries.ts';
import { Component } from '../../worlds/cluster/component.ts';
import { snapshotController } from '../../worlds/cluster/sidecars.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { newNamespace, startApiServer, startController } from './api-server.ts';
import { Machines, podSpec } from './machines.ts';
import { Questions } from './why-questions.ts';

const gibi = 1024n ** 3n;
const deploy = join(import.meta.dirname, '..', '..', 'deploy');

/** Of a pod: only on this node. */
export const on = (nodeName: string) => ({ nodeSelector: { 'kubernetes.io/hostname': nodeName } });
/** Of a claim. */
export const size = (storage: string) => ({ resources: { requests: { storage } } });

/**
 * A control plane with scheduler and controller manager, Moorage's controller with csi-provisioner, and Nodes whose agents
 * have pools in memory. There are no kubelets: a pod that has a node only has its name.
 */
export class WhyWorld extends Questions {
  readonly admin: KubeClient;
  readonly namespace: string;
  readonly #api: Awaited<ReturnType<typeof startApiServer>>;
  readonly #machines: Machines;
  /** What stops the agent of each node. */
  readonly #agents = new Map<string, () => Promise<void>>();
  readonly #callTimeout: string;
  readonly controller: Component;
  readonly sidecars = new Map<Sidecar, Component>();

  /** `callTimeout`: how long csi-provisioner, csi-resizer and csi-snapshotter wait for an answer before they report an error. */
  static async start(namespace: string, { callTimeout = '10s' } = {}): Promise<WhyWorld> {
    const api = await startApiServer();
    const { cluster, admin } = api;
    await cluster.kubectl('apply', ...['namespace', 'crd', 'rbac'].map((name) => `-f${join(deploy, `${name}.yaml`)}`));
    await cluster.kubectl('wait', '--for=condition=Established', 'crd', '--all');
    await admin.create(csiDrivers, {
      metadata: { name: driverName },
      spec: { attachRequired: false, storageCapacity: true },
    });
    const controller = await startController(cluster);
    await newNamespace(api, namespace);
    const world = new WhyWorld(api, namespace, controller, callTimeout);
    await world.sidecar(
      'csi-provisioner',
      '--feature-gates=Topology=true',
      '--strict-topology',
      '--extra-create-metadata',
    );
    await world.sidecar('csi-resizer');
    await world.storageClass('fast');
    return world;
  }

  private constructor(
    api: Awaited<ReturnType<typeof startApiServer>>,
    namespace: string,
    controller: Component,
    callTimeout: string,
  ) {
    super(api.cluster.kubeconfig, namespace);
    this.#api = api;
    this.#callTimeout = callTimeout;
    this.controller = controller;
    this.admin = api.admin;
    this.namespace = namespace;
    this.#machines = new Machines(this.admin, { provisions: false });
    after(async () => {
      await this.#machines.stop();
      for (const stop of this.#agents.values()) await stop();
    });
  }

  get cluster() {
    return this.#api.cluster;
  }

  /** Every cluster with snapshots has one; it is not part of Moorage. */
  async snapshotController(): Promise<void> {
    const { authority, url } = this.cluster.controlPlane;
    const kubeconfig = await authority.kubeconfig('snapshot-controller', '/O=system:masters/CN=snapshots', url);
    const controller = snapshotController(this.cluster, kubeconfig);
    this.cluster.components.push(controller);
    controller.start();
  }

  /** Starts a sidecar of the controller, with its rights. */
  async sidecar(name: Sidecar, ...flags: readonly string[]): Promise<void> {
    const { cluster } = this;
    const account = '/O=system:serviceaccounts/CN=system:serviceaccount:moorage-system:moorage-controller';
    const { authority, url } = cluster.controlPlane;
    const component = new Component(cluster.namespaces, join(cluster.dir, 'logs'), name, [
      cluster.binaries.sidecars[name],
      `--csi-address=${join(cluster.dir, 'csi.sock')}`,
      `--kubeconfig=${await authority.kubeconfig(name, account, url)}`,
      `--timeout=${this.#callTimeout}`,
      ...flags,
    ]);
    cluster.components.push(component);
    this.sidecars.set(name, component);
    component.start();
  }

  async storageClass(name: string, change: Partial<StorageClass> = {}): Promise<void> {
    const volumeBindingMode = 'WaitForFirstConsumer';
    await this.admin.create(storageClasses, {
      provisioner: driverName,
      volumeBindingMode,
      allowVolumeExpansion: true,
      ...change,
      metadata: { name },
    });
  }

  /** A node that reports this much free space, or nothing; its agent has a pool, or does not run. */
  async node(
    name: string,
    { reports = true, free = 50n, poolGibi = 50n, hasAgent = true, hasDriver = true, labels = {} } = {},
  ): Promise<void> {
    const annotations = {
      [defaultCapacityAnnotation]: String(free * gibi),
      [`${capacityAnnotationPrefix}ssd`]: String(free * gibi),
    };
    await this.#machines.add(name, reports ? annotations : {}, labels);
    const drivers = hasDriver ? [{ name: driverName, nodeID: name, topologyKeys: [topologyKey] }] : [];
    await this.admin.create(csiNodes, { metadata: { name }, spec: { drivers } });
    if (hasAgent) await this.#agent(name, poolGibi * gibi);
  }

  /** What kubelets do: their nodes can be switched off, and forgotten. */
  get machines(): Machines {
    return this.#machines;
  }

  async patchNode(name: string, body: object): Promise<void> {
    await this.admin.patch(nodes, name, { type: 'merge', body });
  }

  /** Waits until the scheduler knows the free space of a node for class fast. */
  async published(nodeName: string, capacity: string): Promise<void> {
    await eventually(`${capacity} of node ${nodeName} are published`, async () => {
      const { items } = await this.admin.list(csiStorageCapacities);
      return items.some(
        (each) =>
          each.storageClassName === 'fast' &&
          each.nodeTopology?.matchLabels?.[topologyKey] === nodeName &&
          parseQuantity(each.capacity ?? '0') === parseQuantity(capacity),
      );
    });
  }

  async stopAgent(nodeName: string): Promise<void> {
    await this.#agents.get(nodeName)?.();
    this.#agents.delete(nodeName);
  }

  async #agent(nodeName: string, bytes: bigint): Promise<void> {
    const client = this.admin;
    const pools = new Pools([new InMemoryPool('ssd', bytes)], 'ssd');
    const common = { client, clock: systemClock, log: silentLog };
    const fieldSelector = `spec.nodeName=${nodeName}`;
    const volumes = new Informer({ ...common, resource: logicalVolumes, fieldSelector });
    volumes.start();
    const work = new Workers([volumeWork({ ...common, volumes, pools })], { ...common, random: Math.random });
    work.start();
    this.#agents.set(nodeName, async () => {
      await work.stop(0);
      await volumes.stop();
    });
  }

  async claim(name: string, spec: object = {}, metadata: object = {}) {
    const claim: PersistentVolumeClaim = {
      metadata: { name, namespace: this.namespace, ...metadata },
      spec: {
        accessModes: ['ReadWriteOnce'],
        storageClassName: 'fast',
        resources: { requests: { storage: '20Gi' } },
        ...spec,
      },
    };
    return this.admin.create(persistentVolumeClaims, claim);
  }

  /** A pod that uses the claims. */
  async pod(name: string, claims: readonly string[], spec: object = {}) {
    const pod: Pod = {
      metadata: { name, namespace: this.namespace },
      spec: {
        ...podSpec,
        containers: [{ name: 'main', image: 'pause' }],
        volumes: claims.map((claimName) => ({ name: claimName, persistentVolumeClaim: { claimName } })),
        ...spec,
      },
    };
    return this.admin.create(pods, pod);
  }

  /** A claim with a volume on the node, by way of the scheduler and csi-provisioner. Its pod is gone again. */
  async volume(name: string, nodeName: string, spec: object = {}): Promise<void> {
    await this.claim(name, spec);
    await this.pod(`first-${name}`, [name], { nodeSelector: { 'kubernetes.io/hostname': nodeName } });
    await eventually(`claim ${name} is bound`, async () => {
      const found = await this.admin.get(persistentVolumeClaims, name, { namespace: this.namespace });
      return found?.status?.phase === 'Bound' || undefined;
    });
    await this.admin.delete(pods, `first-${name}`, { namespace: this.namespace, gracePeriodSeconds: 0 });
    await eventually(`the pod of ${name} is gone`, async () => {
      return (await this.admin.get(pods, `first-${name}`, { namespace: this.namespace })) ? undefined : true;
    });
  }

  /** Waits until the scheduler has found no node. */
  async becomesUnschedulable(name: string): Promise<void> {
    await eventually(`pod ${name} cannot be scheduled`, async () => {
      const found = await this.admin.get(pods, name, { namespace: this.namespace });
      return (
        found?.status?.conditions?.some(({ type, status }) => type === 'PodScheduled' && status === 'False') ||
        undefined
      );
    });
  }

  /** Waits until the reason of a pod that cannot be scheduled is this one, and asserts its sentence. */
  async isStuck(code: ReasonCode, pod: string, sentence: string): Promise<void> {
    await this.becomesUnschedulable(pod);
    assert.equal(await this.becomes(code, `pod/${pod}`), `pod ${pod} waits: ${sentence}`);
  }

  /** Deletes a claim. Finalizers may keep it. */
  async delete(claim: string): Promise<void> {
    await this.admin.delete(persistentVolumeClaims, claim, { namespace: this.namespace });
  }

  /** A file with this text. */
  async file(text: string): Promise<string> {
    const file = join(await mkdtemp(join(this.cluster.dir, 'why-')), 'objects.yaml');
    await writeFile(file, text);
    return file;
  }

  /** What controllers have written on a claim about why it waits, oldest first, once there are as many. */
  async reportsOn(claim: string, count: number): Promise<readonly Event[]> {
    return eventually(`claim ${claim} has ${count} Events`, async () => {
      const { items } = await this.admin.list(events, { namespace: this.namespace });
      const own = items.filter(({ regarding, action }) => regarding?.name === claim && action === 'Waiting');
      return (
        own.length >= count && own.toSorted((a, b) => Date.parse(a.eventTime ?? '') - Date.parse(b.eventTime ?? ''))
      );
    });
  }

  /** As a user who may only read claims. */
  async asReader(user: string): Promise<Questions> {
    const rights = ['--verb=get,list', '--resource=persistentvolumeclaims'];
    await this.cluster.kubectl('-n', this.namespace, 'create', 'role', user, ...rights);
    await this.cluster.kubectl('-n', this.namespace, 'create', 'rolebinding', user, `--role=${user}`, `--user=${user}`);
    const { authority } = this.cluster.controlPlane;
    const kubeconfig = await authority.kubeconfig(user, `/CN=${user}`, this.#api.connection.server);
    return new Questions(kubeconfig, this.namespace);
  }
}
