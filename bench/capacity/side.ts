import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { driverName } from '../../src/api/names.ts';
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import { type PublishedCapacity, publishedCapacity } from '../../src/controller/capacity/plan.ts';
import { Informer } from '../../src/kube/informer.ts';
import { type CsiStorageCapacity, csiDrivers, csiStorageCapacities } from '../../src/kube/resource.ts';
import type { Cluster } from '../../worlds/cluster/cluster.ts';
import { Component } from '../../worlds/cluster/component.ts';

const home = join(import.meta.dirname, '..', '..');
const ticksPerSecond = 100;

export type SideName = 'Moorage' | 'csi-provisioner';

/** Each side has its own namespace: in ours, the controller deletes objects of others. */
export const namespaceOf = { Moorage: 'moorage-system', 'csi-provisioner': 'provisioner-system' } as const;

/** The publisher of capacity: Moorage's controller, or csi-provisioner beside it. */
export class Side {
  readonly #components: readonly Component[];
  readonly #published: Informer<CsiStorageCapacity, PublishedCapacity>;
  readonly #cluster: Cluster;
  readonly #namespace: string;

  private constructor(
    cluster: Cluster,
    namespace: string,
    components: readonly Component[],
    published: Informer<CsiStorageCapacity, PublishedCapacity>,
  ) {
    this.#cluster = cluster;
    this.#namespace = namespace;
    this.#components = components;
    this.#published = published;
  }

  static async start(cluster: Cluster, name: SideName): Promise<Side> {
    const namespace = namespaceOf[name];
    // If the CSIDriver does not track capacity, the controller answers csi-provisioner and publishes nothing.
    const spec = { storageCapacity: name === 'Moorage' };
    await cluster.kube.patch(csiDrivers, driverName, { type: 'merge', body: { spec } });
    const { authority, url } = cluster.controlPlane;
    const kubeconfig = await authority.kubeconfig('bench', '/O=system:masters/CN=bench', url);
    const socket = join(cluster.dir, 'csi.sock');
    const controller = [
      ...[process.execPath, join(home, 'src', 'main.ts'), 'controller'],
      ...[`--csi-socket=${socket}`, `--kubeconfig=${kubeconfig}`, '--metrics-addr=127.0.0.1:8079'],
      ...['--leader-election=false', `--leader-election-namespace=${namespaceOf.Moorage}`],
    ];
    const provisioner = [
      ...[cluster.binaries.sidecars['csi-provisioner'], `--csi-address=${socket}`, `--kubeconfig=${kubeconfig}`],
      ...['--feature-gates=Topology=true', '--strict-topology', '--leader-election=false'],
      ...['--enable-capacity', '--capacity-poll-interval=1s', '--capacity-ownerref-level=-1'],
    ];
    const component = (program: string, argv: readonly string[]) =>
      new Component(cluster.namespaces, join(cluster.dir, 'logs'), program, argv, { NAMESPACE: namespace });
    const components = [
      component('controller', controller),
      ...(name === 'Moorage' ? [] : [component('csi-provisioner', provisioner)]),
    ];
    for (const each of components) each.start();
    const published = new Informer({
      client: cluster.kube,
      resource: csiStorageCapacities,
      namespace,
      project: publishedCapacity,
      clock: systemClock,
      log: silentLog,
    });
    published.start();
    return new Side(cluster, namespace, components, published);
  }

  async stop(): Promise<void> {
    for (const component of this.#components) await component.kill('SIGTERM');
    await this.#published.stop();
    // In one request: kubectl would delete a thousand objects one by one.
    await this.#cluster.kubectl(
      'delete',
      '--raw',
      `/apis/storage.k8s.io/v1/namespaces/${this.#namespace}/csistoragecapacities`,
    );
  }

  /** The number of objects of a StorageClass, or only of those with this capacity. */
  count(storageClass: string, capacity?: string): number {
    const isCounted = (object: PublishedCapacity) =>
      object.storageClass === storageClass && (capacity === undefined || object.capacity === capacity);
    return this.#published.list().filter(isCounted).length;
  }

  /** Counts writes of objects until the returned function is called. */
  countWrites(): () => number {
    let writes = 0;
    const present = this.#published.size;
    const stop = this.#published.onChange(() => writes++);
    return () => {
      stop();
      return writes - present; // a watch reports existing objects first
    };
  }

  /** Milliseconds until the condition is true; undefined if that takes longer than the limit. */
  async until(isSo: () => boolean, limitMs: number): Promise<number | undefined> {
    const started = performance.now();
    while (performance.now() - started < limitMs) {
      if (isSo()) return performance.now() - started;
      await delay(5);
    }
    return undefined;
  }

  /** CPU usage during this time, in percent of one core. */
  async cpuPercent(periodMs: number): Promise<number> {
    const before = await this.#cpuSeconds();
    await delay(periodMs);
    return ((await this.#cpuSeconds()) - before) / (periodMs / 100_000);
  }

  async #cpuSeconds(): Promise<number> {
    let ticks = 0;
    for (const component of this.#components) {
      const stat = await readFile(`/proc/${await component.pid()}/stat`, 'utf8');
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      ticks += Number(fields[11]) + Number(fields[12]); // utime and stime
    }
    return ticks / ticksPerSecond;
  }
}
