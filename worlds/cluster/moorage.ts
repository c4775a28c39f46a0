import { copyFile, mkdir, rm, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { V1CSINode, V1CSIStorageCapacity } from '@kubernetes/client-node';
import { stringify } from 'yaml';
import { logicalVolumes } from '../../src/api/logical-volume.ts';
import { driverName, topologyKey } from '../../src/api/names.ts';
import { type Pod, persistentVolumes, pods, type Resource, type Stored, type Wire } from '../../src/kube/resource.ts';
import { chartDir, helm, namespace } from '../../test/chart/chart.ts';
import { eventually } from '../host/eventually.ts';
import type { Say } from '../host/progress.ts';
import type { Cluster } from './cluster.ts';
import type { ClusterNode } from './cluster-node.ts';
import type { Component } from './component.ts';
import { writeMoorageImage } from './moorage-image.ts';
import { importImages } from './program-image.ts';
import { isReady } from './ready.ts';
import { snapshotController } from './sidecars.ts';
import { values as defaultValues } from './values.ts';

type CSIStorageCapacity = Wire<V1CSIStorageCapacity>;
const csiStorageCapacities: Resource<CSIStorageCapacity> = {
  group: 'storage.k8s.io',
  version: 'v1',
  plural: 'csistoragecapacities',
  kind: 'CSIStorageCapacity',
  namespaced: true,
};
const csiNodes: Resource<Wire<V1CSINode>> = {
  group: 'storage.k8s.io',
  version: 'v1',
  plural: 'csinodes',
  kind: 'CSINode',
  namespaced: false,
};

const release = 'moorage';
const namespaceFile = join(import.meta.dirname, '..', '..', 'deploy', 'namespace.yaml');

export interface InstallOptions {
  /** Takes over the objects of another release, such as TopoLVM's. */
  readonly takeOver?: boolean;
  /** Replaces the default values of test clusters. */
  readonly values?: object;
  readonly say?: Say;
}

/** Moorage on a cluster, installed from its chart: the controller's pod with its sidecars, and an agent's pod on every node. */
export class Moorage {
  readonly #cluster: Cluster;
  readonly #valuesFile: string;
  readonly #snapshots: Component;
  readonly #archive: string;

  private constructor(cluster: Cluster, valuesFile: string, snapshots: Component) {
    this.#cluster = cluster;
    this.#archive = join(dirname(valuesFile), 'moorage.tar');
    this.#valuesFile = valuesFile;
    this.#snapshots = snapshots;
  }

  /** Resolves when every node's agent is registered with its kubelet, and the scheduler knows each node's capacity. */
  static async install(cluster: Cluster, options: InstallOptions = {}): Promise<Moorage> {
    const { takeOver = false, values = defaultValues, say = () => {} } = options;
    const dir = join(cluster.dir, 'moorage');
    await mkdir(dir, { recursive: true });
    const valuesFile = join(dir, 'values.yaml');
    await writeFile(valuesFile, stringify(values));

    const snapshots = snapshotController(cluster, snapshotConfig(dir));
    const moorage = new Moorage(cluster, valuesFile, snapshots);
    cluster.components.push(snapshots, moorage);

    say('image');
    await writeMoorageImage(moorage.#archive);
    await moorage.load(moorage.#archive);

    say('chart and snapshot controller');
    await moorage.#install(takeOver ? ['--take-ownership', '--force-conflicts'] : []);
    return moorage;
  }

  /** Imports the image into the store of a node that was added later or lost its disks, and waits until it is served. */
  async joinedBy(node: ClusterNode): Promise<void> {
    await importCopy(node, this.#archive);
    await this.whenServing(node);
  }

  /** After it was uninstalled, or the cluster was rebuilt: with the same values, from the images on the nodes. */
  async reinstall(): Promise<void> {
    await this.#snapshots.kill('SIGTERM');
    await this.#install();
  }

  async #install(flags: readonly string[] = []): Promise<void> {
    const cluster = this.#cluster;
    await cluster.kubectl('apply', `-f${cluster.binaries.snapshotManifests}`);
    await writeSnapshotConfig(cluster, snapshotConfig(dirname(this.#valuesFile)));
    this.#snapshots.start();
    await cluster.kubectl('apply', `-f${namespaceFile}`);
    await this.#helm('install', release, chartDir, `--values=${this.#valuesFile}`, ...flags);
    for (const node of cluster.nodes) await this.whenServing(node);
  }

  /** Imports an image of Moorage into the store of every node. */
  async load(archive: string): Promise<void> {
    await Promise.all(this.#cluster.nodes.map((node) => importCopy(node, archive)));
  }

  /** Upgrades Moorage to another image tag; resolves when all pods run it. */
  async upgrade(tag: string): Promise<void> {
    await this.#helm('upgrade', release, chartDir, `--values=${this.#valuesFile}`, `--set=image.tag=${tag}`, '--wait');
  }

  /** Sets other values of the chart; resolves when all pods run with them. */
  async reconfigure(values: object): Promise<void> {
    await writeFile(this.#valuesFile, stringify(values));
    await this.#helm('upgrade', release, chartDir, `--values=${this.#valuesFile}`, '--wait');
  }

  /** Upgrades to possibly broken values: resolves at once, even if no pod will ever run with them. */
  async upgradeTo(values: object): Promise<void> {
    const file = `${this.#valuesFile}.next`;
    await writeFile(file, stringify(values));
    await this.#helm('upgrade', release, chartDir, `--values=${file}`);
  }

  /** Returns to the state before the upgrade. */
  async rollback(): Promise<void> {
    await this.#helm('rollback', release, '--wait');
  }

  /** Skips the check for volumes: existing ones stay where they are. */
  async uninstall(): Promise<void> {
    await this.#uninstall('--no-hooks');
  }

  /** Like a user: it fails while there are volumes. */
  async uninstallWithCheck(): Promise<void> {
    await this.#uninstall();
  }

  async #uninstall(...flags: readonly string[]): Promise<void> {
    await this.#helm('uninstall', release, '--wait', ...flags);
    await this.#snapshots.kill('SIGTERM');
  }

  /** Runs helm as an administrator; if something does not become ready, the error includes the logs of the pods. */
  async #helm(...words: readonly string[]): Promise<string> {
    const admin = [`--kubeconfig=${this.#cluster.kubeconfig}`, `--namespace=${namespace}`, '--timeout=240s'];
    return helm(...words, ...admin).catch(async (error: Error) => {
      throw new Error(`${error.message}\n${await this.#cluster.tails()}`, { cause: error });
    });
  }

  /** The serving agent of a node. */
  async agentOn(node: ClusterNode): Promise<Stored<Pod>> {
    const [agent] = await this.agentsOn(node);
    if (!agent) throw new Error(`${node.name} has no agent pod`);
    return agent;
  }

  /** The serving agent and, during an upgrade, the standby; without agents that were told to stop. */
  async agentsOn(node: ClusterNode): Promise<Stored<Pod>[]> {
    const found = await this.#podsOf('node', `spec.nodeName=${node.name}`);
    const startOf = ({ metadata }: Stored<Pod>) => Date.parse(metadata.creationTimestamp);
    return found.toSorted((one, other) => startOf(one) - startOf(other));
  }

  async controller(): Promise<Stored<Pod>> {
    const [pod, ...more] = await this.#podsOf('controller');
    if (!pod || more.length > 0) throw new Error(`expected one controller pod, found ${pod ? more.length + 1 : 0}`);
    return pod;
  }

  /** Like the kernel when memory runs out; the kubelet restarts them. */
  async killAgent(node: ClusterNode): Promise<void> {
    await node.shell(`pkill -KILL -f '[m]oorage.mjs node '`);
  }

  async killController(): Promise<void> {
    const { spec } = await this.controller();
    await this.#cluster.node(spec?.nodeName ?? '').shell(`pkill -KILL -f '[m]oorage.mjs controller '`);
  }

  /** The controller's CSI socket, on its node. */
  async controllerSocket(): Promise<string> {
    const { metadata, spec } = await this.controller();
    const volume = `/var/lib/kubelet/pods/${metadata.uid}/volumes/kubernetes.io~empty-dir/socket`;
    const link = '/run/moorage-controller'; // the path of a socket must be short
    await this.#cluster.node(spec?.nodeName ?? '').shell(`ln -sfn ${volume} ${link}`);
    return `${link}/csi-topolvm.sock`;
  }

  /** The log of a pod. */
  async log({ metadata }: Stored<Pod>): Promise<string> {
    return this.#cluster.kubectl('-n', namespace, 'logs', metadata.name);
  }

  /** The Prometheus metrics of a pod. */
  async metrics({ metadata }: Stored<Pod>): Promise<string> {
    const path = `/api/v1/namespaces/${namespace}/pods/${metadata.name}:8080/proxy/metrics`;
    return this.#cluster.kubectl('get', '--raw', path);
  }

  /** Waits until the kubelet can mount on the node, and the scheduler knows its capacity. */
  async whenServing(node: ClusterNode): Promise<void> {
    await eventually(
      `Moorage serves ${node.name}`,
      async () => {
        const csiNode = await this.#cluster.kube.get(csiNodes, node.name);
        const { items } = await this.#cluster.kube.list(csiStorageCapacities, { namespace });
        const isRegistered = csiNode?.spec.drivers?.some(({ name }) => name === driverName) ?? false;
        const isRoomOfNode = (room: CSIStorageCapacity) => room.nodeTopology?.matchLabels?.[topologyKey] === node.name;
        const isKnown = items.some((room) => room.capacity !== undefined && isRoomOfNode(room));
        return isRegistered && isKnown && isReady(await this.agentOn(node));
      },
      { timeoutMs: 240_000, explain: () => this.#cluster.tails() },
    );
  }

  /** Waits until the API has no volumes left, so that no space stays reserved. */
  async whenNoVolumes(): Promise<void> {
    await eventually(
      'all volumes are gone',
      async () => {
        const volumes = await this.#cluster.kube.list(logicalVolumes);
        const persistent = await this.#cluster.kube.list(persistentVolumes);
        return volumes.items.length + persistent.items.length === 0;
      },
      { explain: () => this.#cluster.tails() },
    );
  }

  /** The last log lines of all pods, and their status. */
  async tail(): Promise<string> {
    const here = ['--namespace', namespace];
    const said = [
      this.#cluster.kubectl(...here, 'get', 'pods', '--output=wide'),
      this.#cluster.kubectl(...here, 'get', 'events', '--field-selector=type=Warning'),
      this.#cluster.kubectl(
        ...[...here, 'logs', '--selector=app.kubernetes.io/name=moorage', '--all-containers'],
        ...['--prefix', '--tail=12', '--max-log-requests=50', '--ignore-errors'],
      ),
    ].map((lines) => lines.catch((error: Error) => error.message));
    return `--- Moorage\n${(await Promise.all(said)).join('\n')}`;
  }

  /** Without pods that are being deleted. */
  async #podsOf(component: string, fieldSelector?: string): Promise<Stored<Pod>[]> {
    const labelSelector = `app.kubernetes.io/component=${component},app.kubernetes.io/name=moorage`;
    const { items } = await this.#cluster.kube.list(pods, { namespace, labelSelector, fieldSelector });
    return items.filter(({ metadata }) => !metadata.deletionTimestamp);
  }
}

/** Imports an image into the store of a node, which sees only the host files in its own directory. */
export async function importCopy(node: ClusterNode, archive: string): Promise<void> {
  const copy = join(node.machine.dir, basename(archive));
  await copyFile(archive, copy);
  await importImages(node, [copy]);
  await rm(copy);
}

const account = 'snapshot-controller';
const snapshotConfig = (dir: string) => join(dir, `${account}.kubeconfig`);

/** Makes a program outside a pod act as the snapshot controller's ServiceAccount. */
async function writeSnapshotConfig(cluster: Cluster, file: string): Promise<void> {
  const token = await cluster.kubectl('-n', 'kube-system', 'create', 'token', account, '--duration=8760h');
  const { url, authority } = cluster.controlPlane;
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': account,
    contexts: [{ name: account, context: { cluster: 'moorage', user: account } }],
    clusters: [{ name: 'moorage', cluster: { server: url, 'certificate-authority': authority.certificate } }],
    users: [{ name: account, user: { token: token.trim() } }],
  };
  await writeFile(file, stringify(config), { mode: 0o600 });
}
