import { join } from 'node:path';
import { after } from 'node:test';
import { logicalVolumes } from '../../src/api/logical-volume.ts';
import { capacityAnnotationPrefix, defaultCapacityAnnotation, driverName, topologyKey } from '../../src/api/names.ts';
import { systemClock } from '../../src/base/clock.ts';
import { runCaptured } from '../../src/base/testing/run-captured.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import { Workers } from '../../src/base/work.ts';
import { Pools } from '../../src/engine/pools.ts';
import { InMemoryPool } from '../../src/engine/testing/in-memory-pool.ts';
import { type ReasonCode, reasons } from '../../src/explain/explanation.ts';
import type { KubeClient } from '../../src/kube/client.ts';
import { Informer } from '../../src/kube/informer.ts';
import {
  csiDrivers,
  csiNodes,
  events,
  type PersistentVolumeClaim,
  type Pod,
  persistentVolumeClaims,
  pods,
  type StorageClass,
  storageClasses,
} from '../../src/kube/resource.ts';
import { volumeWork } from '../../src/node/reconcile/logical-volume-reconciler.ts';
import { ProblemsFound } from '../../src/plugin/problems-found.ts';
import { kubectlMoorage } from '../../src/plugin/program.ts';
import { Component } from '../../worlds/cluster/component.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { newNamespace, startApiServer, startController } from './api-server.ts';
import { Machines, podSpec } from './machines.ts';

const gibi = 1024n ** 3n;
const deploy = join(import.meta.dirname, '..', '..', 'deploy');

/** What `kubectl moorage why -o json` prints. */
export interface Why {
  readonly code: ReasonCode;
  readonly sentence: string;
  readonly evidence: readonly string[];
  readonly remedy: readonly string[];
  readonly unread: readonly string[];
}

/**
 * A control plane with scheduler and controller manager, Moorage's controller with csi-provisioner, and Nodes whose agents
 * have pools in memory. There are no kubelets: a pod that has a node only has its name.
 */
export class WhyWorld {
  readonly admin: KubeClient;
  readonly namespace: string;
  readonly #api: Awaited<ReturnType<typeof startApiServer>>;
  readonly #machines: Machines;
  /** What stops the agent of each node. */
  readonly #agents = new Map<string, () => Promise<void>>();

  static async start(namespace: string): Promise<WhyWorld> {
    const api = await startApiServer();
    const { cluster, admin } = api;
    await cluster.kubectl('apply', ...['namespace', 'crd', 'rbac'].map((name) => `-f${join(deploy, `${name}.yaml`)}`));
    await cluster.kubectl('wait', '--for=condition=Established', 'crd', '--all');
    await admin.create(csiDrivers, {
      metadata: { name: driverName },
      spec: { attachRequired: false, storageCapacity: true },
    });
    await startController(cluster);
    const account = '/O=system:serviceaccounts/CN=system:serviceaccount:moorage-system:moorage-controller';
    const { authority, url } = cluster.controlPlane;
    const kubeconfig = await authority.kubeconfig('sidecars', account, url);
    const common = [`--csi-address=${join(cluster.dir, 'csi.sock')}`, `--kubeconfig=${kubeconfig}`];
    const flags = ['--feature-gates=Topology=true', '--strict-topology', '--extra-create-metadata'];
    const { sidecars } = cluster.binaries;
    for (const [name, argv] of [
      ['csi-provisioner', [sidecars['csi-provisioner'], ...common, ...flags]],
      ['csi-resizer', [sidecars['csi-resizer'], ...common]],
    ] as const) {
      const sidecar = new Component(cluster.namespaces, join(cluster.dir, 'logs'), name, argv);
      cluster.components.push(sidecar);
      sidecar.start();
    }
    await newNamespace(api, namespace);
    const world = new WhyWorld(api, namespace);
    await world.storageClass('fast');
    return world;
  }

  private constructor(api: Awaited<ReturnType<typeof startApiServer>>, namespace: string) {
    this.#api = api;
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

  /** A node that reports this much free space; its agent has a pool, or does not run. */
  async node(
    name: string,
    { free = 50n, poolGibi = 50n, hasAgent = true, hasDriver = true, labels = {} } = {},
  ): Promise<void> {
    const annotations = {
      [defaultCapacityAnnotation]: String(free * gibi),
      [`${capacityAnnotationPrefix}ssd`]: String(free * gibi),
    };
    await this.#machines.add(name, annotations, labels);
    const drivers = hasDriver ? [{ name: driverName, nodeID: name, topologyKeys: [topologyKey] }] : [];
    await this.admin.create(csiNodes, { metadata: { name }, spec: { drivers } });
    if (hasAgent) await this.#agent(name, poolGibi * gibi);
  }

  forget(name: string): void {
    this.#machines.forget(name);
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

  /** Deletes a claim. Finalizers may keep it. */
  async delete(claim: string): Promise<void> {
    await this.admin.delete(persistentVolumeClaims, claim, { namespace: this.namespace });
  }

  /** What the controller has written on a claim, with this reason. */
  async eventOn(claim: string, reason: ReasonCode): Promise<string> {
    return eventually(`claim ${claim} has an Event ${reason}`, async () => {
      const { items } = await this.admin.list(events, { namespace: this.namespace });
      return items.find((event) => event.regarding?.name === claim && event.reason === reason)?.note;
    });
  }

  async why(word: string): Promise<Why> {
    return JSON.parse(await this.print(word, '-ojson')) as Why;
  }

  /** As a user who may only read claims. */
  async whyAs(user: string, word: string): Promise<Why> {
    const rights = ['--verb=get,list', '--resource=persistentvolumeclaims'];
    await this.cluster.kubectl('-n', this.namespace, 'create', 'role', user, ...rights);
    await this.cluster.kubectl('-n', this.namespace, 'create', 'rolebinding', user, `--role=${user}`, `--user=${user}`);
    const { authority } = this.cluster.controlPlane;
    const kubeconfig = await authority.kubeconfig(user, `/CN=${user}`, this.#api.connection.server);
    return JSON.parse(await this.#printWith(kubeconfig, [word, '-ojson'])) as Why;
  }

  async print(...words: readonly string[]): Promise<string> {
    return this.#printWith(this.cluster.kubeconfig, words);
  }

  async #printWith(kubeconfig: string, words: readonly string[]): Promise<string> {
    const printed: string[] = [];
    const plugin = kubectlMoorage({ columns: undefined, colours: false });
    try {
      await runCaptured(plugin, ['why', ...words, '-n', this.namespace], { env: { KUBECONFIG: kubeconfig }, printed });
    } catch (error) {
      if (!(error instanceof ProblemsFound)) throw error;
    }
    return printed.join('\n');
  }

  /** Waits until the reason is this one; then its sentence must be right. */
  async becomes(code: ReasonCode, word: string): Promise<string> {
    let last: Why | undefined;
    try {
      return await eventually(`${word}: ${code} (${reasons[code]})`, async () => {
        last = await this.why(word);
        return last.code === code ? last.sentence : undefined;
      });
    } catch (error) {
      throw new Error(`${word} is ${last?.code}: ${last?.sentence}`, { cause: error });
    }
  }
}
