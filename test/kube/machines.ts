import { nodeFinalizer, selectedNodeAnnotation, topologyKey } from '../../src/api/names.ts';
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import type { KubeClient } from '../../src/kube/client.ts';
import { Informer } from '../../src/kube/informer.ts';
import {
  nodes,
  type PersistentVolumeClaim,
  type Pod,
  persistentVolumeClaims,
  pods,
  type StatefulSet,
  type Stored,
  statefulSets,
} from '../../src/kube/resource.ts';
import { createLogicalVolume, createPersistentVolume } from './removed-nodes.ts';

/** A client of a process that is killed before this many writes: then nothing it does has an effect any more. */
export function mortal(client: KubeClient, writes: number): { readonly client: KubeClient; isDead(): boolean } {
  let left = writes;
  const isWrite = (name: string | symbol) => ['create', 'patch', 'delete'].includes(String(name));
  const proxy = new Proxy(client, {
    get(target, name) {
      return (...args: unknown[]) => {
        if (isWrite(name)) left -= 1;
        if (left < 0) throw new Error('the process was killed');
        return (Reflect.get(target, name) as (...args: unknown[]) => unknown).apply(target, args);
      };
    },
  });
  return { client: proxy, isDead: () => left < 0 };
}

/** Node objects that look alive, with what kubelets and csi-provisioner do for pods and claims there. */
export class Machines {
  readonly #client: KubeClient;
  readonly #names = new Set<string>();
  readonly #off = new Set<string>();
  readonly #heartbeat = setInterval(() => void this.#beat(), 4000);
  readonly #pods: Informer<Pod>;
  readonly #claims: Informer<PersistentVolumeClaim>;

  /** `provisions`: whether claims get volumes, as from csi-provisioner. */
  constructor(client: KubeClient, { provisions = true } = {}) {
    const common = { client, clock: systemClock, log: silentLog };
    this.#client = client;
    this.#pods = new Informer({ ...common, resource: pods });
    this.#claims = new Informer({ ...common, resource: persistentVolumeClaims });
    // A kubelet ends the pods of its node, unless its machine is off.
    this.#pods.onChange(({ kind, object }) => {
      const { namespace, name, uid, deletionTimestamp } = object.metadata;
      const { nodeName } = object.spec ?? {};
      if (kind === 'deleted' || !nodeName || !deletionTimestamp || this.#off.has(nodeName)) return;
      void client.delete(pods, name, { namespace, gracePeriodSeconds: 0, preconditions: { uid } }).catch(() => {});
    });
    this.#claims.onChange(({ kind, object }) => {
      if (kind !== 'deleted' && provisions) void provision(client, object).catch(() => {}); // provisioned already
    });
    this.#pods.start();
    this.#claims.start();
  }

  async add(name: string, annotations: Record<string, string> = {}, more: Record<string, string> = {}): Promise<void> {
    const labels = { 'kubernetes.io/hostname': name, [topologyKey]: name, ...more };
    await this.#client.create(nodes, { metadata: { name, labels, annotations, finalizers: [nodeFinalizer] } });
    this.#names.add(name);
    await this.#beat();
  }

  /** Its Node becomes NotReady, at once. */
  async powerOff(name: string): Promise<void> {
    this.#off.add(name);
    await this.#beat();
  }

  async powerOn(name: string): Promise<void> {
    this.#off.delete(name);
    await this.#beat();
  }

  forget(name: string): void {
    this.#names.delete(name);
  }

  async stop(): Promise<void> {
    clearInterval(this.#heartbeat);
    await Promise.all([this.#pods.stop(), this.#claims.stop()]);
  }

  async #beat(): Promise<void> {
    const now = new Date().toISOString();
    const allocatable = { cpu: '4', memory: '4Gi', pods: '110' };
    for (const name of this.#names) {
      const status = this.#off.has(name) ? 'False' : 'True';
      const conditions = [{ type: 'Ready', status, reason: 'Test', lastHeartbeatTime: now }];
      const body = { status: { conditions, allocatable, capacity: allocatable } };
      await this.#client.patch(nodes, name, { type: 'merge', body }, { subresource: 'status' }).catch(() => {}); // removed
    }
  }
}

async function provision(client: KubeClient, claim: Stored<PersistentVolumeClaim>): Promise<void> {
  const { namespace, uid, annotations, deletionTimestamp } = claim.metadata;
  const node = annotations?.[selectedNodeAnnotation];
  if (!node || deletionTimestamp || claim.spec?.volumeName) return;
  // Moorage creates no volume on a Node that is being deleted, and csi-provisioner has the claim scheduled again.
  const chosen = await client.get(nodes, node);
  if (!chosen || chosen.metadata.deletionTimestamp) {
    const body = { metadata: { annotations: { [selectedNodeAnnotation]: null } } };
    await client.patch(persistentVolumeClaims, claim.metadata.name, { type: 'merge', body }, { namespace });
    return;
  }
  const name = `pvc-${uid}`;
  const handle = await createLogicalVolume(client, name, node);
  await createPersistentVolume(client, claim, { name, node, handle });
}

export const podSpec = {
  automountServiceAccountToken: false,
  terminationGracePeriodSeconds: 0,
  containers: [{ name: 'main', image: 'pause', volumeMounts: [{ name: 'data', mountPath: '/data' }] }],
};

export function claimSpec(storageClassName: string) {
  return { accessModes: ['ReadWriteOnce'], storageClassName, resources: { requests: { storage: '1Gi' } } };
}

interface SetOptions {
  readonly pod?: Partial<Pod['spec']>;
  readonly set?: Partial<StatefulSet['spec']>;
  /** The names of its claims. */
  readonly claims?: readonly string[];
  /** Of its claims. */
  readonly annotations?: Record<string, string>;
}

export async function createSet(
  client: KubeClient,
  namespace: string,
  name: string,
  storageClass: string,
  { pod = {}, set = {}, annotations = {}, claims = ['data'] }: SetOptions = {},
) {
  const labels = { app: name };
  return client.create(statefulSets, {
    metadata: { name, namespace },
    spec: {
      replicas: 1,
      serviceName: name,
      selector: { matchLabels: labels },
      template: { metadata: { labels }, spec: { ...podSpec, ...pod } },
      volumeClaimTemplates: claims.map((claim) => ({
        metadata: { name: claim, annotations },
        spec: claimSpec(storageClass),
      })),
      ...set,
    },
  });
}
