import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { pods, statefulSets } from '../../src/kube/resource.ts';
import type { Cluster } from '../../worlds/cluster/cluster.ts';
import { busyboxImage } from '../../worlds/cluster/images.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { undoAfter } from '../../worlds/lvm/undo.ts';
import { claimSpec, lightPod, TestNamespace } from './test-namespace.ts';

/**
 * Writes a large file once, then numbered blocks whose names are their checksums, for ever. Block N is on the disk before
 * `acked` is N. At each start it checks what it finds: what was acknowledged must be there, and be right; a block that was
 * not may be torn by a power loss. Then it records how long nothing was written, and the last block that it has found. The
 * copy of `acked` in its container shows that it writes since then. It pauses, because a process is expensive in a machine.
 */
const script = `
  cd /data && mkdir -p ring
  sum() { sha256sum | cut -c1-64; }
  if [ -e bulk.sum ]; then
    [ "$(sum <bulk)" = "$(cat bulk.sum)" ] || echo "bulk is not what was written" >>broken
    acked=$(cat acked) top=0
    for block in ring/*; do
      number=\${block#ring/} number=\${number%%.*}
      if [ "$(sum <$block)" = "\${block##*.}" ]; then [ $number -lt $top ] || top=$number
      elif [ $number -gt $acked ]; then rm $block
      else echo "block $number is not what was written" >>broken
      fi
    done
    number=$((acked - 12))
    while [ $((number += 1)) -le $acked ]; do
      [ $number -lt 1 ] || ls ring/$number.* >/dev/null 2>&1 || echo "block $number is lost" >>broken
    done
    echo "$(($(date +%s) - $(stat -c %Y acked))) $top" >>starts
  else
    head -c 12582912 /dev/urandom >bulk && sync && sum <bulk >bulk.new && mv bulk.new bulk.sum
    rm -f ring/* starts; touch starts; top=0
  fi
  while :; do
    top=$((top + 1))
    head -c 65536 /dev/urandom >block && mv block ring/$top.$(sum <block) && rm -f ring/$((top - 16)).* && sync || exit 1
    echo $top >acked.new && mv acked.new acked && cp acked /acked
    sleep 0.5
  done`;

/** What a pod has written. */
interface Written {
  /** The last block that is on the disk. */
  readonly acked: number;
  /** What each start after the first one has found. */
  readonly starts: readonly { readonly pauseSeconds: number; readonly found: number }[];
  /** What is not as it was written. */
  readonly broken: string;
}

export interface CheckedSetOptions {
  readonly replicas?: number;
  readonly storageClass?: string;
  /** Of its claims. */
  readonly annotations?: Readonly<Record<string, string>>;
  /** The nodes that its pods may run on. */
  readonly onNodes?: readonly string[];
}

/** A StatefulSet in a namespace of its own name, whose pods write checksummed data all the time. */
export class CheckedSet {
  readonly name: string;
  readonly ns: TestNamespace;
  readonly #cluster: Cluster;
  /** What each pod had written when this was looked at last. */
  readonly #seen = new Map<number, Written>();

  private constructor(cluster: Cluster, ns: TestNamespace) {
    this.#cluster = cluster;
    this.name = ns.name;
    this.ns = ns;
  }

  /** Resolves when all pods write. Whatever becomes of the test, everything is deleted after it. */
  static async forTest(t: TestContext, cluster: Cluster, name: string, options?: CheckedSetOptions) {
    const set = await CheckedSet.#apply(cluster, name, options);
    undoAfter(t, () => set.delete());
    return set.#allWrite(options?.replicas);
  }

  /** Resolves when all pods write. */
  static async create(cluster: Cluster, name: string, options?: CheckedSetOptions): Promise<CheckedSet> {
    return (await CheckedSet.#apply(cluster, name, options)).#allWrite(options?.replicas);
  }

  static async #apply(cluster: Cluster, name: string, options: CheckedSetOptions = {}): Promise<CheckedSet> {
    const { replicas = 1, storageClass = 'moorage', annotations = {}, onNodes } = options;
    const ns = await TestNamespace.create(cluster, name);
    const labels = { app: name };
    const container = {
      name: 'main',
      image: busyboxImage,
      imagePullPolicy: 'Never',
      command: ['sh', '-c', `trap 'exit 0' TERM; ${script}`],
      volumeMounts: [{ name: 'data', mountPath: '/data' }],
    };
    const spec = { ...lightPod, ...(onNodes && { affinity: affinityTo(onNodes) }), containers: [container] };
    await cluster.kube.create(statefulSets, {
      metadata: { name, namespace: name },
      spec: {
        replicas,
        serviceName: name,
        podManagementPolicy: 'Parallel',
        selector: { matchLabels: labels },
        template: { metadata: { labels }, spec },
        volumeClaimTemplates: [
          {
            metadata: { name: 'data', annotations: { ...annotations } },
            spec: claimSpec({ storageClass, size: '64Mi' }),
          },
        ],
      },
    });
    return new CheckedSet(cluster, ns);
  }

  async #allWrite(replicas = 1): Promise<this> {
    for (let ordinal = 0; ordinal < replicas; ordinal++) await this.writes(ordinal);
    return this;
  }

  pod(ordinal = 0): string {
    return `${this.name}-${ordinal}`;
  }

  claim(ordinal = 0): string {
    return `data-${this.name}-${ordinal}`;
  }

  /** Empty if there is no pod, or it waits for a node. */
  async nodeOf(ordinal = 0): Promise<string> {
    return (await this.#cluster.kube.get(pods, this.pod(ordinal), { namespace: this.name }))?.spec?.nodeName ?? '';
  }

  async volumeId(ordinal = 0): Promise<string> {
    return this.ns.volumeId(this.claim(ordinal));
  }

  /** Waits until the pod runs and has written since this was looked at last. */
  async writes(ordinal = 0): Promise<void> {
    this.#seen.set(ordinal, await this.#written(ordinal, this.#seen.get(ordinal)?.acked ?? 0));
  }

  /** The pod writes, and all that it has ever written is there. Returns how many seconds it has not written. */
  async verify(ordinal = 0): Promise<number> {
    const before = this.#seen.get(ordinal) ?? assert.fail(`${this.pod(ordinal)} has not written before`);
    const written = await this.#written(ordinal, before.acked);
    assert.equal(written.broken, '');
    const news = written.starts.slice(before.starts.length);
    for (const { found } of news)
      assert.ok(found >= before.acked, `block ${before.acked} is lost; the last is ${found}`);
    this.#seen.set(ordinal, written);
    return news.reduce((sum, { pauseSeconds }) => sum + pauseSeconds, 0);
  }

  /** The pod is the first one on a new volume, and writes there. */
  async isFresh(ordinal = 0): Promise<void> {
    const written = await this.#written(ordinal, 0);
    assert.deepEqual(written.starts, []);
    this.#seen.set(ordinal, written);
  }

  async scale(replicas: number): Promise<void> {
    await this.ns.kubectl('scale', `statefulset/${this.name}`, `--replicas=${replicas}`);
  }

  /** Deletes everything; resolves when the volumes are gone too. */
  async delete(): Promise<void> {
    await this.ns.kubectl('delete', 'statefulset', this.name, '--cascade=foreground', '--ignore-not-found');
    await this.ns.empty();
  }

  /** Once it has written more than `after` blocks. */
  async #written(ordinal: number, after: number): Promise<Written> {
    await this.ns.ready(this.pod(ordinal));
    return eventually(`pod ${this.pod(ordinal)} writes`, async () => {
      const written = await this.#read(ordinal);
      return written.acked > after && written;
    });
  }

  async #read(ordinal: number): Promise<Written> {
    const read = 'cd /data && cat /acked && if [ -e broken ]; then tr "\\n" ";" <broken; fi && echo && cat starts';
    const [acked, broken = '', ...starts] = (await this.ns.sh(this.pod(ordinal), read)).split('\n');
    return {
      acked: Number(acked),
      broken,
      starts: starts.map((line) => {
        const [pauseSeconds, found] = line.split(' ').map(Number);
        return { pauseSeconds: pauseSeconds ?? 0, found: found ?? 0 };
      }),
    };
  }
}

function affinityTo(nodeNames: readonly string[]) {
  const matchExpressions = [{ key: 'kubernetes.io/hostname', operator: 'In', values: [...nodeNames] }];
  const nodeSelectorTerms = [{ matchExpressions }];
  return { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms } } };
}
