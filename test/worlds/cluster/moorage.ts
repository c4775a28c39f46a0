import { execFile } from 'node:child_process';
import { copyFile, mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import type { V1CSINode, V1CSIStorageCapacity } from '@kubernetes/client-node';
import { stringify } from 'yaml';
import { persistentVolumes, type Resource, type Wire } from '../../../src/kube/resource.ts';
import { logicalVolumes } from '../../../src/logical-volume/logical-volume.ts';
import { driverName, parameters, topologyKey } from '../../../src/names.ts';
import { eventually } from '../host/eventually.ts';
import type { Cluster } from './cluster.ts';
import { type ClusterNode, thin, volumeGroup } from './cluster-node.ts';
import { Component } from './component.ts';
import { controllerSidecars, snapshotController } from './sidecars.ts';

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

const run = promisify(execFile);
const home = join(import.meta.dirname, '..', '..', '..');
const namespace = 'moorage-system';

/** On each node. */
export const agentPidFile = '/run/moorage-agent.pid';

/** What every node offers: its volume group, its thin pool, and a directory as for nodes that have no disk to spare. */
const engine = {
  'device-classes': [
    { name: 'lvm', 'volume-group': volumeGroup, default: true, 'spare-gb': 0 },
    {
      name: 'thin',
      type: 'thin',
      'volume-group': thin.volumeGroup,
      'thin-pool': { name: thin.pool, 'overprovision-ratio': 4 },
    },
    { name: 'file', type: 'file', path: '/var/lib/moorage', 'spare-gb': 0 },
  ],
};

/** A StorageClass for each device class besides the default one, which `moorage` is for. */
const storageClasses = ['thin', 'file'].map((deviceClass) => ({
  apiVersion: 'storage.k8s.io/v1',
  kind: 'StorageClass',
  metadata: { name: `moorage-${deviceClass}` },
  provisioner: driverName,
  parameters: { [parameters.deviceClass]: deviceClass },
  volumeBindingMode: 'WaitForFirstConsumer',
  allowVolumeExpansion: true,
}));

/** Moorage on a cluster: the controller with its sidecars beside the API server, the agent on every node. */
export class Moorage {
  readonly controller: Component;
  /** On which the controller serves CSI. */
  readonly socket: string;
  readonly sidecars: readonly Component[];
  readonly #cluster: Cluster;

  private constructor(cluster: Cluster, controller: Component, socket: string, sidecars: readonly Component[]) {
    this.#cluster = cluster;
    this.controller = controller;
    this.socket = socket;
    this.sidecars = sidecars;
  }

  /** Resolves when every node's agent is registered with its kubelet, and the scheduler knows each node's capacity. */
  static async install(cluster: Cluster): Promise<Moorage> {
    await run(process.execPath, [join(home, 'scripts', 'build.ts')]);
    // Kinds first: a VolumeSnapshotClass can only be applied once the API knows what that is.
    const kinds = [cluster.binaries.snapshotManifests, join(home, 'deploy', 'crd.yaml')];
    await cluster.kubectl('apply', ...kinds.map((path) => `-f${path}`));
    const names = ['namespace', 'rbac', 'csidriver', 'storageclass', 'snapshotclass'];
    const manifests = names.map((name) => join(home, 'deploy', `${name}.yaml`));
    await cluster.kubectl('apply', ...manifests.map((path) => `-f${path}`), `-f${await classesFile(cluster.dir)}`);

    const dir = join(cluster.dir, 'moorage');
    await mkdir(dir, { recursive: true });
    const socket = join(dir, 'csi.sock');
    const [kubeconfig, snapshotKubeconfig] = await Promise.all([
      serviceAccountConfig(cluster, 'moorage-controller', dir),
      serviceAccountConfig(cluster, 'snapshot-controller', dir, 'kube-system'),
    ]);
    const logs = join(cluster.dir, 'logs');
    const controller = new Component(cluster.namespaces, logs, 'moorage-controller', [
      join(home, 'bin', 'moorage'),
      'controller',
      `--csi-socket=${socket}`,
      `--kubeconfig=${kubeconfig}`,
      '--metrics-addr=127.0.0.1:8080',
    ]);
    const sidecars = controllerSidecars({ cluster, namespace, socket, kubeconfig });
    const snapshots = snapshotController(cluster, snapshotKubeconfig);
    cluster.components.push(controller, ...sidecars, snapshots);
    const moorage = new Moorage(cluster, controller, socket, sidecars);
    snapshots.start();
    await moorage.startController();
    await Promise.all(cluster.nodes.map((node) => moorage.installAgent(node)));
    return moorage;
  }

  /** Starts all programs of the controller's pod. The sidecars end when they lose the controller, so they start anew too. */
  async startController(): Promise<void> {
    await Promise.all(this.sidecars.map((sidecar) => sidecar.kill()));
    this.controller.start();
    for (const sidecar of this.sidecars) sidecar.start();
  }

  /** Starts the agent on a node, now and at each boot from now on. */
  async installAgent(node: ClusterNode): Promise<void> {
    const { dir } = node.machine;
    for (const file of ['moorage', 'moorage.mjs']) await copyFile(join(home, 'dist', file), join(dir, file));
    await writeFile(join(dir, 'lvmd.yaml'), stringify(engine));
    const kubeconfig = await serviceAccountConfig(this.#cluster, 'moorage-node', dir);
    const agent = [
      ...[`PATH=${dirname(process.execPath)}:$PATH`, join(dir, 'moorage'), 'node'],
      `--nodename=${node.name}`,
      `--config=${join(dir, 'lvmd.yaml')}`,
      `--kubeconfig=${kubeconfig}`,
      `--csi-socket=/var/lib/kubelet/plugins/${driverName}/node/csi-topolvm.sock`,
    ];
    // As a DaemonSet's pod would, it comes back whenever it ends.
    const once = `${agent.join(' ')} >>${dir}/moorage.log 2>&1 & echo $! >${agentPidFile}; wait $!`;
    const loop = `while :; do ${once}; sleep 1; done`;
    await writeFile(join(dir, 'at-boot.sh'), `(${loop}) </dev/null >/dev/null 2>&1 &\n`);
    await node.shell(`setsid sh ${dir}/at-boot.sh`);
    await this.whenServing(node);
  }

  /** Until the kubelet can mount on the node, and the scheduler knows how much room it has. */
  async whenServing(node: ClusterNode): Promise<void> {
    await eventually(
      `Moorage serves ${node.name}`,
      async () => {
        const csiNode = await this.#cluster.kube.get(csiNodes, node.name);
        const { items } = await this.#cluster.kube.list(csiStorageCapacities, { namespace });
        const isRegistered = csiNode?.spec.drivers.some(({ name }) => name === driverName) ?? false;
        const isRoomOfNode = (room: CSIStorageCapacity) => room.nodeTopology?.matchLabels?.[topologyKey] === node.name;
        return isRegistered && items.some((room) => room.capacity !== undefined && isRoomOfNode(room));
      },
      { explain: () => this.#cluster.tails() },
    );
  }

  /** Until nothing of Moorage is left in the API: no volume, so no space that is held for nobody. */
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
}

async function classesFile(dir: string): Promise<string> {
  const file = join(dir, 'storage-classes.yaml');
  await writeFile(file, storageClasses.map((object) => stringify(object)).join('---\n'));
  return file;
}

/** A kubeconfig with which a program outside a pod is a ServiceAccount, with no more rights than that has. */
async function serviceAccountConfig(
  cluster: Cluster,
  account: string,
  dir: string,
  inNamespace = namespace,
): Promise<string> {
  const token = await cluster.kubectl('-n', inNamespace, 'create', 'token', account, '--duration=8760h');
  const { url, authority } = cluster.controlPlane;
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': account,
    contexts: [{ name: account, context: { cluster: 'moorage', user: account } }],
    clusters: [{ name: 'moorage', cluster: { server: url, 'certificate-authority': 'ca.crt' } }],
    users: [{ name: account, user: { token: token.trim() } }],
  };
  await copyFile(authority.certificate, join(dir, 'ca.crt'));
  const file = join(dir, `${account}.kubeconfig`);
  await writeFile(file, stringify(config), { mode: 0o600 });
  return file;
}
