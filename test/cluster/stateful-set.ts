import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { persistentVolumeClaims, pods } from '../../src/kube/resource.ts';
import type { Cluster } from '../../worlds/cluster/cluster.ts';
import { busyboxImage } from '../../worlds/cluster/images.ts';
import { isReady } from '../../worlds/cluster/ready.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { undoAfter } from '../../worlds/lvm/undo.ts';
import { lightPod, volumesGone } from './test-namespace.ts';

export interface StatefulSetOptions {
  readonly replicas?: number;
  readonly storageClass?: string;
  readonly size?: string;
  /** Puts its pods on as many nodes as possible. */
  readonly spread?: boolean;
}

const script =
  'echo "$(hostname) $(cat /proc/sys/kernel/random/uuid)" >>/data/log && sync && touch /synced && { sleep 1000000 & wait $!; }';

/** A StatefulSet whose pods have a volume each, at /data. They write one line to it at each start, and wait. */
export class StatefulSet {
  readonly name: string;
  readonly #cluster: Cluster;

  private constructor(cluster: Cluster, name: string) {
    this.#cluster = cluster;
    this.name = name;
  }

  /** Whatever becomes of the test, the set and its volumes are gone after it. */
  static async forTest(t: TestContext, cluster: Cluster, name: string, options?: StatefulSetOptions) {
    const set = await StatefulSet.create(cluster, name, options);
    undoAfter(t, async () => {
      const claims = await set.#claims();
      await set.delete();
      await volumesGone(cluster, claims);
    });
    return set;
  }

  static async create(cluster: Cluster, name: string, options: StatefulSetOptions = {}): Promise<StatefulSet> {
    const { replicas = 1, storageClass = 'moorage', size = '100Mi', spread = false } = options;
    const labels = { app: name };
    const container = {
      name: 'writer',
      image: busyboxImage,
      imagePullPolicy: 'Never',
      command: ['sh', '-c', `trap 'exit 0' TERM; ${script}`],
      volumeMounts: [{ name: 'data', mountPath: '/data' }],
    };
    const claim = {
      metadata: { name: 'data' },
      spec: {
        accessModes: ['ReadWriteOnce'],
        storageClassName: storageClass,
        resources: { requests: { storage: size } },
      },
    };
    const evenly = {
      maxSkew: 1,
      topologyKey: 'kubernetes.io/hostname',
      whenUnsatisfiable: 'DoNotSchedule',
      labelSelector: { matchLabels: labels },
    };
    const placement = spread ? { topologySpreadConstraints: [evenly] } : {};
    const object = {
      apiVersion: 'apps/v1',
      kind: 'StatefulSet',
      metadata: { name },
      spec: {
        replicas,
        serviceName: name,
        selector: { matchLabels: labels },
        template: { metadata: { labels }, spec: { ...lightPod, ...placement, containers: [container] } },
        volumeClaimTemplates: [claim],
      },
    };
    const file = join(cluster.dir, `${name}.json`);
    await writeFile(file, JSON.stringify(object));
    await cluster.kubectl('apply', '-f', file);
    return new StatefulSet(cluster, name);
  }

  /** Its pod runs, and its line is on the disk. */
  async ready(ordinal = 0): Promise<void> {
    const pod = `${this.name}-${ordinal}`;
    await eventually(
      `pod ${pod} is Ready`,
      async () => isReady(await this.#cluster.kube.get(pods, pod, { namespace: 'default' })),
      { explain: () => this.#explain(`pod/${pod}`) },
    );
    const isSynced = () => this.#cluster.kubectl('exec', pod, '--', 'ls', '/synced').then(() => true);
    await eventually(`pod ${pod} has written`, isSynced, { explain: () => this.#explain(`pod/${pod}`) });
  }

  /** The lines written by the pods, oldest first. */
  async lines(ordinal = 0): Promise<string[]> {
    const log = await this.#cluster.kubectl('exec', `${this.name}-${ordinal}`, '--', 'cat', '/data/log');
    return log.trim().split('\n');
  }

  /** Deletes a pod and waits for its replacement. */
  async replacePod(ordinal = 0): Promise<void> {
    const pod = `pod/${this.name}-${ordinal}`;
    const before = await this.#get(pod, '{.metadata.uid}');
    await this.#cluster.kubectl('delete', pod);
    await eventually(`${pod} is another one`, async () => {
      const uid = await this.#get(pod, '{.metadata.uid}');
      return uid !== '' && uid !== before;
    });
    await this.ready(ordinal);
  }

  async nodeOf(ordinal = 0): Promise<string> {
    return this.#get(`pod/${this.name}-${ordinal}`, '{.spec.nodeName}');
  }

  /** The CSI volume ID, which is the name of the volume on its node. */
  async volumeId(ordinal = 0): Promise<string> {
    const volume = await this.#get(`pvc/data-${this.name}-${ordinal}`, '{.spec.volumeName}');
    return this.#get(`pv/${volume}`, '{.spec.csi.volumeHandle}');
  }

  /** Deletes the set with its pods, then its claims. */
  async delete(): Promise<void> {
    await this.#cluster.kubectl('delete', 'statefulset', this.name, '--cascade=foreground', '--ignore-not-found');
    const own = (await this.#claims()).map(({ metadata }) => metadata.name);
    if (own.length > 0) await this.#cluster.kubectl('delete', 'pvc', ...own);
  }

  async #claims() {
    const { items } = await this.#cluster.kube.list(persistentVolumeClaims, { namespace: 'default' });
    const isOwn = new RegExp(`^data-${this.name}-\\d+$`); // the name of another set may begin with this one's
    return items.filter(({ metadata }) => isOwn.test(metadata.name));
  }

  async #get(object: string, path: string): Promise<string> {
    return this.#cluster.kubectl('get', object, '--ignore-not-found', `-ojsonpath=${path}`);
  }

  async #explain(object: string): Promise<string> {
    return [await this.#cluster.kubectl('describe', object), await this.#cluster.tails()].join('\n');
  }
}
