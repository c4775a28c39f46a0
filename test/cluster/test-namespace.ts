import type { TestContext } from 'node:test';
import type { V1CSIVolumeSource, V1PersistentVolumeClaimTemplate } from '@kubernetes/client-node';
import { logicalVolumes } from '../../src/api/logical-volume.ts';
import {
  events,
  type PersistentVolumeClaim,
  persistentVolumeClaims,
  persistentVolumes,
  pods,
  type Wire,
} from '../../src/kube/resource.ts';
import { namespaces } from '../../src/kube/testing/resources.ts';
import type { Cluster } from '../../worlds/cluster/cluster.ts';
import type { ClusterNode } from '../../worlds/cluster/cluster-node.ts';
import { busyboxImage } from '../../worlds/cluster/images.ts';
import { isReady } from '../../worlds/cluster/ready.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { undoAfter } from '../../worlds/lvm/undo.ts';

export interface ClaimOptions {
  readonly storageClass?: string;
  readonly size?: string;
  readonly volumeMode?: 'Filesystem' | 'Block';
  readonly accessMode?: 'ReadWriteOnce' | 'ReadWriteOncePod';
  readonly attributesClass?: string;
  /** The source of a copy. */
  readonly source?: { readonly kind: 'VolumeSnapshot' | 'PersistentVolumeClaim'; readonly name: string };
  /** The selected node, as the scheduler would set it: the volume is created there without a pod. */
  readonly node?: string;
  readonly annotations?: Readonly<Record<string, string>>;
}

/** The volumes of a pod, by their paths in its container. */
export interface PodOptions {
  readonly claims?: Readonly<Record<string, string>>;
  readonly devices?: Readonly<Record<string, string>>;
  readonly inline?: Readonly<Record<string, Wire<V1CSIVolumeSource>>>;
  readonly generic?: Readonly<Record<string, Wire<V1PersistentVolumeClaimTemplate>>>;
  /** Mounts the claims read-only: the kubelet requests it from the driver. */
  readonly readOnly?: boolean;
  readonly node?: string;
  /** Runs in the background of the pod. */
  readonly script?: string;
}

/** Disables what a test pod does not need, to save work of the node's one processor. */
export const lightPod = { hostNetwork: true, automountServiceAccountToken: false, terminationGracePeriodSeconds: 1 };

/** The namespace of one test, with its claims and pods. */
export class TestNamespace {
  readonly name: string;
  readonly #cluster: Cluster;

  private constructor(cluster: Cluster, name: string) {
    this.#cluster = cluster;
    this.name = name;
  }

  /** Whatever becomes of the test, the namespace is empty after it. */
  static async forTest(t: TestContext, cluster: Cluster, name: string): Promise<TestNamespace> {
    const ns = await TestNamespace.create(cluster, name);
    undoAfter(t, () => ns.empty());
    return ns;
  }

  static async create(cluster: Cluster, name: string): Promise<TestNamespace> {
    await cluster.kube.create(namespaces, { metadata: { name } });
    return new TestNamespace(cluster, name);
  }

  async claim(name: string, options: ClaimOptions = {}): Promise<void> {
    await this.#cluster.kube.create(persistentVolumeClaims, {
      metadata: {
        name,
        namespace: this.name,
        annotations: {
          ...options.annotations,
          ...(options.node && { 'volume.kubernetes.io/selected-node': options.node }),
        },
      },
      spec: claimSpec(options),
    });
  }

  /** Creates a pod; `ready` waits for it. */
  async pod(name: string, options: PodOptions): Promise<void> {
    const { claims = {}, devices = {}, inline = {}, generic = {}, readOnly = false, node, script = ':' } = options;
    const mounts = [
      ...Object.entries(claims).map(([path, claimName]) => ({
        path,
        source: { persistentVolumeClaim: { claimName, readOnly } },
      })),
      ...Object.entries(inline).map(([path, csi]) => ({ path, source: { csi } })),
      ...Object.entries(generic).map(([path, template]) => ({
        path,
        source: { ephemeral: { volumeClaimTemplate: template } },
      })),
    ].map((mount, index) => ({ ...mount, name: `volume-${index}` }));
    const blocks = Object.entries(devices).map(([path, claimName], index) => ({
      path,
      name: `device-${index}`,
      source: { persistentVolumeClaim: { claimName } },
    }));
    const pod = {
      metadata: { name, namespace: this.name },
      spec: {
        ...lightPod,
        ...(node && { nodeSelector: { 'kubernetes.io/hostname': node } }),
        containers: [
          {
            name: 'main',
            image: busyboxImage,
            imagePullPolicy: 'Never',
            command: ['sh', '-c', `trap 'exit 0' TERM; { ${script}; } & sleep 1000000 & wait $!`],
            volumeMounts: mounts.map((mount) => ({ name: mount.name, mountPath: mount.path })),
            volumeDevices: blocks.map((block) => ({ name: block.name, devicePath: block.path })),
          },
        ],
        volumes: [...mounts, ...blocks].map((volume) => ({ name: volume.name, ...volume.source })),
      },
    };
    // A namespace accepts pods once it has its default ServiceAccount.
    await eventually(`pod ${name} is created`, () => this.#cluster.kube.create(pods, pod));
  }

  async ready(pod: string): Promise<void> {
    await eventually(
      `pod ${this.name}/${pod} is Ready`,
      async () => isReady(await this.#cluster.kube.get(pods, pod, { namespace: this.name })),
      { explain: () => this.#explain(`pod/${pod}`) },
    );
  }

  /** Runs a script in a pod and returns its output. */
  async sh(pod: string, script: string): Promise<string> {
    return (await this.kubectl('exec', pod, '--', 'sh', '-ec', script)).trim();
  }

  async nodeOf(pod: string): Promise<ClusterNode> {
    const found = await this.#cluster.kube.get(pods, pod, { namespace: this.name });
    return this.#cluster.node(found?.spec?.nodeName ?? '');
  }

  async podUid(pod: string): Promise<string> {
    return (await this.#cluster.kube.get(pods, pod, { namespace: this.name }))?.metadata.uid ?? '';
  }

  async deletePod(pod: string): Promise<void> {
    await this.kubectl('delete', 'pod', pod);
  }

  /** Deletes a pod and waits for its replacement. */
  async replacePod(pod: string, options: PodOptions): Promise<void> {
    await this.deletePod(pod);
    await this.pod(pod, options);
    await this.ready(pod);
  }

  async found(claim: string): Promise<PersistentVolumeClaim | undefined> {
    return this.#cluster.kube.get(persistentVolumeClaims, claim, { namespace: this.name });
  }

  /** The CSI volume ID, which is the volume's name on its node, once the claim is bound. */
  async volumeId(claim: string): Promise<string> {
    const volumeName = await eventually(
      `claim ${this.name}/${claim} is bound`,
      async () => {
        const found = await this.found(claim);
        return found?.status?.phase === 'Bound' && found.spec?.volumeName;
      },
      { explain: () => this.#explain(`pvc/${claim}`) },
    );
    const volume = await this.#cluster.kube.get(persistentVolumes, volumeName);
    return volume?.spec?.csi?.volumeHandle ?? '';
  }

  async grow(claim: string, size: string): Promise<void> {
    await this.patchClaim(claim, { spec: { resources: { requests: { storage: size } } } });
  }

  async patchClaim(claim: string, body: object): Promise<void> {
    const place = { namespace: this.name };
    await this.#cluster.kube.patch(persistentVolumeClaims, claim, { type: 'merge', body }, place);
  }

  /** Waits until the claim, and so its filesystem, has the size. */
  async grown(claim: string, size: string): Promise<void> {
    await eventually(
      `claim ${this.name}/${claim} has ${size}`,
      async () => (await this.found(claim))?.status?.capacity?.['storage'] === size,
      { explain: () => this.#explain(`pvc/${claim}`) },
    );
  }

  /** The message of the first matching event about an object. */
  async event(object: string, words: RegExp): Promise<string> {
    const [kind, name] = object.split('/');
    return eventually(
      `an event about ${object} says ${words}`,
      async () => {
        const { items } = await this.#cluster.kube.list(events, { namespace: this.name });
        const about = items.filter(({ regarding }) => regarding?.kind === kind && regarding?.name === name);
        return about.map(({ note = '' }) => note).find((note) => words.test(note));
      },
      { explain: () => this.#explain(object) },
    );
  }

  async kubectl(...args: string[]): Promise<string> {
    return this.#cluster.kubectl('-n', this.name, ...args);
  }

  /** Copies are deleted before their source: without it, the provisioner cannot determine that no volume was created. */
  async deleteClaim(claim: string): Promise<void> {
    const found = await this.found(claim);
    await this.kubectl('delete', 'pvc', claim);
    await volumesGone(this.#cluster, found ? [found] : []);
  }

  /** Deletes all pods, snapshots and claims; resolves when their volumes are gone too. */
  async empty(): Promise<void> {
    const { items } = await this.#cluster.kube.list(persistentVolumeClaims, { namespace: this.name });
    await this.kubectl('delete', 'pod,volumesnapshot,pvc', '--all');
    await volumesGone(this.#cluster, items);
  }

  async #explain(object: string): Promise<string> {
    return [await this.kubectl('describe', object), await this.#cluster.tails()].join('\n');
  }
}

/** Resolves when no volume of these claims is left. */
export async function volumesGone(cluster: Cluster, claims: readonly PersistentVolumeClaim[]): Promise<void> {
  const own = claims.map(({ metadata }) => `pvc-${metadata?.uid}`); // the name of a moved volume has a suffix
  await eventually(
    `the volumes of ${claims.map(({ metadata }) => metadata?.name).join(', ')} are gone`,
    async () => {
      const left = await cluster.kube.list(logicalVolumes, { project: ({ metadata }) => metadata.name });
      return left.items.every((name) => !own.some((start) => name.startsWith(start)));
    },
    { explain: () => cluster.tails() },
  );
}

export function claimSpec(options: ClaimOptions): NonNullable<PersistentVolumeClaim['spec']> {
  const { storageClass = 'moorage', size = '100Mi', volumeMode = 'Filesystem', source } = options;
  return {
    accessModes: [options.accessMode ?? 'ReadWriteOnce'],
    storageClassName: storageClass,
    volumeMode,
    resources: { requests: { storage: size } },
    ...(options.attributesClass && { volumeAttributesClassName: options.attributesClass }),
    ...(source && {
      dataSource: { ...source, ...(source.kind === 'VolumeSnapshot' && { apiGroup: 'snapshot.storage.k8s.io' }) },
    }),
  };
}
