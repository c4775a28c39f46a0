import { existsSync } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { systemClock } from '../../src/base/clock.ts';
import { silentLog } from '../../src/base/testing/silent-log.ts';
import { KubeClient } from '../../src/kube/client.ts';
import { connectionFromKubeconfig } from '../../src/kube/credentials.ts';
import { nodes } from '../../src/kube/resource.ts';
import { ensurePackages } from '../host/packages.ts';
import { stage } from '../host/progress.ts';
import { newRunDir } from '../host/run-dir.ts';
import { ensureMachineFiles, type MachineFiles } from '../machine/machine-files.ts';
import { type Binaries, ensureBinaries } from './binaries.ts';
import { ClusterNode } from './cluster-node.ts';
import type { Component } from './component.ts';
import { ControlPlane } from './control-plane.ts';
import { type Kubectl, kubectlFor } from './kubectl.ts';
import { Namespaces } from './namespaces.ts';
import { createBridge } from './network.ts';
import { ensureSystemDisk } from './system-disk.ts';

/** Concurrent requests when thousands are needed. */
const atOnce = 50;

const controlPlanePackages = ['iproute2', 'util-linux', 'openssl'];
const nodePackages = ['busybox-static', 'containerd', 'crun', 'containernetworking-plugins'];

export interface ClusterOptions {
  readonly nodes: number;
  readonly memoryMb?: number;
  readonly apiServerFlags?: readonly string[];
  /** The directory of its state, for a cluster that outlives this process. Without it, the cluster ends with this process. */
  readonly keepIn?: string;
}

/** Something with a log. */
export interface Log {
  tail(): Promise<string>;
}

/** The files that the machines of all nodes start from; fast once they exist. */
interface NodeParts {
  readonly machineFiles: MachineFiles;
  readonly systemDisk: string;
}

/** Builds all parts of clusters, for callers that start several at once: otherwise each would build the missing ones. */
export async function ensureClusterParts(): Promise<void> {
  requireHost();
  await ensureNodeParts(await ensureControlPlaneParts());
}

async function ensureControlPlaneParts(): Promise<Binaries> {
  await stage('Debian packages for the control plane', (say) => ensurePackages(controlPlanePackages, say));
  return ensureBinaries();
}

async function ensureNodeParts({ sidecars }: Binaries): Promise<NodeParts> {
  await stage('Debian packages for nodes', (say) => ensurePackages(nodePackages, say));
  const machineFiles = await stage('Machine files', (say) => ensureMachineFiles(say));
  return { machineFiles, systemDisk: await ensureSystemDisk(machineFiles, sidecars) };
}

/** A cluster for a test (or for all tests of a file, with node:test's own `after`), removed when the test ends. */
export async function startCluster(
  test: { after(fn: () => Promise<void>): void },
  options: ClusterOptions,
): Promise<Cluster> {
  const cluster = await Cluster.start(options);
  test.after(() => cluster.stop());
  return cluster;
}

/** A real Kubernetes cluster: a control plane in its own namespaces, and a machine for each node. */
export class Cluster {
  readonly dir: string;
  readonly binaries: Binaries;
  readonly namespaces: Namespaces;
  readonly controlPlane: ControlPlane;
  readonly kubectl: Kubectl;
  /** Our own client, with administrator rights. */
  readonly kube: KubeClient;
  /** Programs on the cluster; errors include their last log lines. */
  readonly components: Log[];
  readonly #options: ClusterOptions;
  readonly #nodes = new Map<string, ClusterNode>();

  private constructor(
    dir: string,
    binaries: Binaries,
    options: ClusterOptions,
    namespaces: Namespaces,
    plane: ControlPlane,
    kube: KubeClient,
  ) {
    this.dir = dir;
    this.binaries = binaries;
    this.namespaces = namespaces;
    this.controlPlane = plane;
    this.kubectl = kubectlFor(binaries.kubernetes.kubectl, plane.kubeconfig);
    this.kube = kube;
    this.components = [...plane.components];
    this.#options = options;
  }

  static async start(options: ClusterOptions): Promise<Cluster> {
    requireHost();
    const binaries = await ensureControlPlaneParts();
    if (options.nodes > 0) await ensureNodeParts(binaries); // now, because it shows its progress
    const dir = options.keepIn ?? (await newRunDir('cluster'));
    await mkdir(dir, { recursive: true });
    const namespaces = await Namespaces.create(dir, { outlivesUs: options.keepIn !== undefined });
    try {
      const plane = await stage('Control plane', async () => {
        await createBridge(namespaces);
        return ControlPlane.start(namespaces, dir, binaries, options.apiServerFlags ?? []);
      });
      const connection = await connectionFromKubeconfig(plane.kubeconfig, systemClock);
      const kube = new KubeClient({ connection, clock: systemClock, log: silentLog });
      const cluster = new Cluster(dir, binaries, options, namespaces, plane, kube);
      await stage(`Nodes (${options.nodes})`, async (say) => {
        const addNode = async () => say(`${(await cluster.addNode()).name} is Ready`);
        await Promise.all(Array.from({ length: options.nodes }, addNode));
      });
      return cluster;
    } catch (error) {
      await Cluster.end(dir);
      throw error;
    }
  }

  /** Ends the cluster whose state is in `dir`, whoever started it and even if it is incomplete, and removes its state. */
  static async end(dir: string): Promise<void> {
    await Namespaces.end(dir);
    await rm(dir, { recursive: true, force: true, maxRetries: 5 }); // the last processes may still be dying
  }

  /** An administrator's kubeconfig for the host. */
  get kubeconfig(): string {
    return this.controlPlane.kubeconfig;
  }

  get apiServer(): Component {
    return this.controlPlane.apiServer;
  }

  get etcd(): Component {
    return this.controlPlane.etcd;
  }

  get nodes(): readonly ClusterNode[] {
    return [...this.#nodes.values()];
  }

  /** By its full name or its letter. */
  node(name: string): ClusterNode {
    const node = this.#nodes.get(name) ?? this.#nodes.get(`node-${name}`);
    if (!node) throw new Error(`no node ${name}; the nodes are ${[...this.#nodes.keys()].join(', ')}`);
    return node;
  }

  async addNode(): Promise<ClusterNode> {
    const node = await this.#create();
    await node.boot();
    return node;
  }

  /** Turns a machine off for good and deletes its Node. */
  async removeNode(node: ClusterNode): Promise<void> {
    await node.kill();
    await this.kubectl('delete', 'node', node.name, '--ignore-not-found');
    this.#nodes.delete(node.name);
  }

  /** All objects are lost; the machines keep their disks and join again under their names. */
  async rebuild(): Promise<void> {
    for (const node of this.nodes) await node.powerOff();
    await this.controlPlane.wipe();
    await Promise.all(this.nodes.map((node) => node.boot()));
  }

  /** Creates Node objects without machines: enough for programs that only read them, and cheap by the thousand. */
  async registerNodes(count: number): Promise<void> {
    const names = Array.from({ length: count }, (_, index) => `registered-${index}`);
    const register = (name: string) =>
      this.kube.create(nodes, {
        apiVersion: 'v1',
        kind: 'Node',
        metadata: { name, labels: { 'kubernetes.io/hostname': name } },
        spec: { unschedulable: true },
      });
    for (let done = 0; done < count; done += atOnce) await Promise.all(names.slice(done, done + atOnce).map(register));
  }

  /** The last log lines of the components, for error messages. */
  async tails(): Promise<string> {
    const parts = [...this.components, ...this.nodes];
    return (await Promise.all(parts.map((part) => part.tail()))).join('\n');
  }

  async stop(): Promise<void> {
    for (const component of this.controlPlane.components) component.release();
    await this.kube.close();
    await Cluster.end(this.dir);
  }

  #created = 0;
  async #create(): Promise<ClusterNode> {
    this.#created += 1;
    const index = this.#created;
    const dir = join(this.dir, 'nodes', ClusterNode.nameOf(index));
    await mkdir(dir, { recursive: true });
    const node = await ClusterNode.create({
      index,
      dir,
      memoryMb: this.#options.memoryMb ?? 1024,
      ...(await ensureNodeParts(this.binaries)),
      kubelet: this.binaries.kubernetes.kubelet,
      namespaces: this.namespaces,
      controlPlane: this.controlPlane,
      kube: this.kube,
      outlivesUs: this.#options.keepIn !== undefined,
    });
    this.#nodes.set(node.name, node);
    return node;
  }
}

/** Fails early with everything that the host lacks. */
export function requireHost(): void {
  const lacking: string[] = [];
  if (process.getuid?.() !== 0) lacking.push('root (for network namespaces and taps)');
  if (!existsSync('/dev/net/tun')) lacking.push('/dev/net/tun (load the tun module)');
  if (lacking.length > 0) {
    throw new Error(
      `a cluster needs ${lacking.join(' and ')}; unit tests and the LVM world (npm run test:unit, npm run test:lvm) do not need it`,
    );
  }
}
