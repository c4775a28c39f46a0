import assert from 'node:assert/strict';
import type { V1StatefulSetPersistentVolumeClaimRetentionPolicy } from '@kubernetes/client-node';
import { persistentVolumes, pods, statefulSets, type Wire } from '../../src/kube/resource.ts';
import type { Cluster } from '../../worlds/cluster/cluster.ts';
import { busyboxImage } from '../../worlds/cluster/images.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { claimSpec, lightPod, TestNamespace } from './test-namespace.ts';

/** Writes numbered lines with their checksums, in bursts, from where the last pod stopped. */
const writer =
  'i=$(cat /data/writes 2>/dev/null | wc -l); ' +
  'while :; do i=$((i+1)); echo "$i $(echo $i | sha256sum)" >>/data/writes; [ $((i % 10)) != 0 ] || { sync; sleep 1; }; done';
/** Prints the numbers of lines that are not as they were written; the last one may be incomplete. */
const wrongLines =
  'i=0; head -n -1 /data/writes | while read n s _; do i=$((i+1)); [ $n = $i ] || echo $i; ' +
  '[ $((i % 20)) != 0 ] || [ "$(echo $n | sha256sum | cut -d" " -f1)" = $s ] || echo $n; done';

export interface CheckedSetOptions {
  readonly replicas?: number;
  readonly storageClass?: string;
  /** Of its claims. */
  readonly annotations?: Readonly<Record<string, string>>;
  readonly retention?: Wire<V1StatefulSetPersistentVolumeClaimRetentionPolicy>;
  /** Puts each pod on another node. */
  readonly spread?: boolean;
}

/** A StatefulSet in a namespace of its own name. Its pods write checksummed lines all the time, beside a file of random data. */
export class CheckedSet {
  readonly name: string;
  readonly ns: TestNamespace;
  readonly #cluster: Cluster;
  readonly #sums = new Map<number, string>();

  private constructor(cluster: Cluster, ns: TestNamespace) {
    this.#cluster = cluster;
    this.name = ns.name;
    this.ns = ns;
  }

  /** Resolves when all pods write. */
  static async create(cluster: Cluster, name: string, options: CheckedSetOptions = {}): Promise<CheckedSet> {
    const { replicas = 1, storageClass = 'moorage', annotations = {}, retention, spread = false } = options;
    const ns = await TestNamespace.create(cluster, name);
    const labels = { app: name };
    const container = {
      name: 'main',
      image: busyboxImage,
      imagePullPolicy: 'Never',
      command: ['sh', '-c', `trap 'exit 0' TERM; { ${writer}; } & wait $!`],
      volumeMounts: [{ name: 'data', mountPath: '/data' }],
    };
    const apart = { labelSelector: { matchLabels: labels }, topologyKey: 'kubernetes.io/hostname' };
    const affinity = { podAntiAffinity: { requiredDuringSchedulingIgnoredDuringExecution: [apart] } };
    await cluster.kube.create(statefulSets, {
      metadata: { name, namespace: name },
      spec: {
        replicas,
        serviceName: name,
        podManagementPolicy: 'Parallel',
        selector: { matchLabels: labels },
        template: { metadata: { labels }, spec: { ...lightPod, ...(spread && { affinity }), containers: [container] } },
        volumeClaimTemplates: [
          { metadata: { name: 'data', annotations: { ...annotations } }, spec: claimSpec({ storageClass }) },
        ],
        ...(retention && { persistentVolumeClaimRetentionPolicy: retention }),
      },
    });
    const set = new CheckedSet(cluster, ns);
    for (let ordinal = 0; ordinal < replicas; ordinal++) await set.#fill(ordinal);
    return set;
  }

  async #fill(ordinal: number): Promise<void> {
    await this.ns.ready(this.pod(ordinal));
    const fill = 'dd if=/dev/urandom of=/data/random bs=1M count=4 2>/dev/null; sync; sha256sum </data/random';
    this.#sums.set(ordinal, await this.ns.sh(this.pod(ordinal), fill));
    await this.writes(ordinal);
  }

  pod(ordinal = 0): string {
    return `${this.name}-${ordinal}`;
  }

  claim(ordinal = 0): string {
    return `data-${this.name}-${ordinal}`;
  }

  async nodeOf(ordinal = 0): Promise<string> {
    return (await this.#cluster.kube.get(pods, this.pod(ordinal), { namespace: this.name }))?.spec?.nodeName ?? '';
  }

  async volumeId(ordinal = 0): Promise<string> {
    return this.ns.volumeId(this.claim(ordinal));
  }

  /** The PersistentVolume of the claim. */
  async volume(ordinal = 0) {
    const { spec } = (await this.ns.found(this.claim(ordinal))) ?? {};
    return this.#cluster.kube.get(persistentVolumes, spec?.volumeName ?? '');
  }

  /** Resolves when the pod has written since. */
  async writes(ordinal = 0): Promise<void> {
    const lines = async () => Number(await this.ns.sh(this.pod(ordinal), 'cat /data/writes | wc -l'));
    const before = await lines();
    await eventually(`${this.pod(ordinal)} writes`, async () => (await lines()) > before);
  }

  /** All that its pod has ever written is there. */
  async verify(ordinal = 0): Promise<void> {
    await this.ns.ready(this.pod(ordinal));
    assert.equal(await this.ns.sh(this.pod(ordinal), 'sha256sum </data/random'), this.#sums.get(ordinal));
    assert.equal(await this.ns.sh(this.pod(ordinal), wrongLines), '');
    await this.writes(ordinal);
  }

  /** The pod is on a new volume, and writes there. */
  async isFresh(ordinal = 0): Promise<void> {
    await this.ns.ready(this.pod(ordinal));
    assert.equal(await this.ns.sh(this.pod(ordinal), 'ls /data/random 2>/dev/null || true'), '');
    await this.writes(ordinal);
  }

  async scale(replicas: number): Promise<void> {
    await this.ns.kubectl('scale', `statefulset/${this.name}`, `--replicas=${replicas}`);
  }

  /** Deletes everything; resolves when the volumes are gone too. */
  async delete(): Promise<void> {
    await this.ns.kubectl('delete', 'statefulset', this.name, '--cascade=foreground');
    await this.ns.empty();
  }
}
