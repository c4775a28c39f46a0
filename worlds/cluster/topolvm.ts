import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { ensureTopolvm } from '../../bench/topolvm/topolvm.ts';
import { driverName } from '../../src/api/names.ts';
import { eventually } from '../host/eventually.ts';
import type { Cluster } from './cluster.ts';
import { type ClusterNode, thin, volumeGroup } from './cluster-node.ts';
import { Component } from './component.ts';
import { moduleDir } from './go-build.ts';
import { controllerSidecars, snapshotController } from './sidecars.ts';

const home = join(import.meta.dirname, '..', '..');
const namespace = 'topolvm-system';
const csiSocket = `/var/lib/kubelet/plugins/${driverName}/node/csi-topolvm.sock`;
const pidFile = '/run/topolvm.pids';

/** The device classes of Moorage that TopoLVM supports too. */
const engine = {
  'lvm-command-prefix': ['/sbin/lvm'],
  'device-classes': [
    { name: 'lvm', 'volume-group': volumeGroup, default: true, 'spare-gb': 0 },
    {
      name: 'thin',
      type: 'thin',
      'volume-group': thin.volumeGroup,
      'spare-gb': 0,
      'thin-pool': { name: thin.pool, 'overprovision-ratio': 4 },
    },
  ],
};

/** TopoLVM itself on a cluster, with the sidecars of its chart. */
export class Topolvm {
  readonly #cluster: Cluster;
  readonly #node: string;
  readonly #kubeconfig: string;
  readonly #components: readonly Component[];

  private constructor(cluster: Cluster, node: string, kubeconfig: string, components: readonly Component[]) {
    this.#cluster = cluster;
    this.#node = node;
    this.#kubeconfig = kubeconfig;
    this.#components = components;
  }

  /** Creates the objects of its chart; `start` runs it. */
  static async install(cluster: Cluster): Promise<Topolvm> {
    const programs = await ensureTopolvm();
    const dir = join(cluster.dir, 'topolvm');
    await mkdir(dir, { recursive: true });
    const objects = join(dir, 'objects.yaml');
    await writeFile(objects, [namespaceObject, csiDriver].map((object) => stringify(object)).join('---\n'));
    const manifests = [await crd(), objects, cluster.binaries.snapshotManifests];
    await cluster.kubectl('apply', ...manifests.map((path) => `-f${path}`));

    const { authority, url } = cluster.controlPlane;
    const kubeconfig = await authority.kubeconfig('topolvm', '/O=system:masters/CN=topolvm', url);
    const socket = join(dir, 'csi.sock');
    const flags = [
      `--csi-socket=${socket}`,
      '--enable-webhooks=false',
      '--leader-election=false',
      '--metrics-bind-address=127.0.0.1:8079',
      '--health-probe-bind-address=127.0.0.1:8081',
    ];
    const controller = new Component(
      cluster.namespaces,
      join(cluster.dir, 'logs'),
      'topolvm-controller',
      [programs.controller, ...flags],
      { KUBECONFIG: kubeconfig },
    );
    const components = [
      controller,
      ...controllerSidecars({ cluster, namespace, socket, kubeconfig }),
      snapshotController(cluster, kubeconfig),
    ];
    return new Topolvm(cluster, programs.node, kubeconfig, components);
  }

  async start(): Promise<void> {
    const [controller] = this.#components;
    for (const component of this.#components) component.start();
    await Promise.all(this.#cluster.nodes.map((node) => this.#startNode(node)));
    await eventually(
      'TopoLVM serves',
      async () => {
        const path = '{range .items[*]}{.capacity}{"\\n"}{end}';
        const capacities = await this.#cluster.kubectl(
          '-n',
          namespace,
          'get',
          'csistoragecapacities',
          `-ojsonpath=${path}`,
        );
        const drivers = await this.#cluster.kubectl('get', 'csinodes', '-ojsonpath={.items[*].spec.drivers[*].name}');
        return capacities.trim() !== '' && drivers.split(' ').length === this.#cluster.nodes.length;
      },
      { explain: async () => `${await controller?.tail()}\n${await this.#cluster.tails()}` },
    );
  }

  async stop(): Promise<void> {
    await Promise.all(this.#components.map((component) => component.kill('SIGTERM')));
    await Promise.all(this.#cluster.nodes.map((node) => node.shell(`kill $(cat ${pidFile}); rm -f ${pidFile}`)));
    // In a real installation its Deployment owns them.
    await this.#cluster.kubectl('-n', namespace, 'delete', 'csistoragecapacities', '--all');
  }

  async #startNode(node: ClusterNode): Promise<void> {
    const { dir } = node.machine;
    const config = join(dir, 'topolvm-lvmd.yaml');
    await writeFile(config, stringify(engine));
    const agent = `KUBECONFIG=${this.#kubeconfig} ${this.#node} --nodename=${node.name} --embed-lvmd --config=${config} --csi-socket=${csiSocket}`;
    const registrar = `${process.execPath} ${join(import.meta.dirname, 'registrar.ts')} ${csiSocket}`;
    const starts = [agent, registrar].map(
      (command) => `${command} </dev/null >>${dir}/topolvm.log 2>&1 & echo $! >>${pidFile}`,
    );
    await writeFile(join(dir, 'topolvm.sh'), `mkdir -p $(dirname ${csiSocket})\n${starts.join('\n')}\n`);
    await node.shell(`setsid sh ${dir}/topolvm.sh`);
  }
}

const namespaceObject = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } };

const csiDriver = {
  apiVersion: 'storage.k8s.io/v1',
  kind: 'CSIDriver',
  metadata: { name: driverName },
  spec: {
    storageCapacity: true,
    attachRequired: false,
    podInfoOnMount: true,
    volumeLifecycleModes: ['Persistent'],
  },
};

async function crd(): Promise<string> {
  const module = await moduleDir(join(home, 'bench', 'topolvm'), 'github.com/topolvm/topolvm');
  return join(module, 'config', 'crd', 'bases', 'topolvm.io_logicalvolumes.yaml');
}
