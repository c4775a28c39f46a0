import { existsSync } from 'node:fs';
import { copyFile, readFile, rm } from 'node:fs/promises';
import { cpus } from 'node:os';
import { join } from 'node:path';
import type { KubeClient } from '../../src/kube/client.ts';
import { nodes } from '../../src/kube/resource.ts';
import { eventually } from '../host/eventually.ts';
import { type CallOptions, Machine } from '../machine/machine.ts';
import type { MachineFiles } from '../machine/machine-files.ts';
import type { ControlPlane } from './control-plane.ts';
import { pauseImage } from './images.ts';
import type { Namespaces } from './namespaces.ts';
import { createTap, network, setPlugged } from './network.ts';
import { copySystemDisk, createDisk, guestScripts } from './system-disk.ts';

export const volumeGroup = 'local';
/** A second volume group, used only for a thin pool. */
export const thin = { volumeGroup: 'local-thin', pool: 'pool' } as const;
const lvmDiskBytes = 4 * 2 ** 30;

export interface ClusterNodeOptions {
  readonly index: number;
  readonly dir: string;
  readonly memoryMb: number;
  readonly machineFiles: MachineFiles;
  readonly systemDisk: string;
  readonly kubelet: string;
  readonly namespaces: Namespaces;
  readonly controlPlane: ControlPlane;
  readonly kube: KubeClient;
  readonly outlivesUs: boolean;
}

/**
 * A node of the cluster: a machine with its own kernel, two disks in a volume group, one for a thin pool, containerd and a kubelet.
 * Tests can cut its power or its network, and wipe its disks.
 */
export class ClusterNode {
  readonly name: string;
  readonly address: string;
  readonly machine: Machine;
  readonly #options: ClusterNodeOptions;
  readonly #disks: NodeDisks;

  private constructor(options: ClusterNodeOptions, machine: Machine, disks: NodeDisks) {
    this.name = machine.name;
    this.address = network.nodeAddress(options.index);
    this.machine = machine;
    this.#options = options;
    this.#disks = disks;
  }

  /** The first node is node-a. */
  static nameOf(index: number): string {
    return `node-${String.fromCharCode('a'.charCodeAt(0) + index - 1)}`;
  }

  static async create(options: ClusterNodeOptions): Promise<ClusterNode> {
    const { index, dir, controlPlane, namespaces } = options;
    const name = ClusterNode.nameOf(index);
    const address = network.nodeAddress(index);
    const disks: NodeDisks = {
      lvm: ['disk0', 'disk1', 'thin-disk'].map((name) => join(dir, name)),
      system: join(dir, 'system-disk'),
    };
    await createTap(namespaces, index);
    const machine = await Machine.create({
      files: options.machineFiles,
      dir,
      name,
      memoryMb: options.memoryMb,
      disks: [...disks.lvm, disks.system],
      tap: { device: network.tap(index), address: `${address}/24`, gateway: network.gateway },
      cpu: (index - 1) % cpus().length,
      boot: join(guestScripts, 'node.sh'),
      enter: namespaces.enter,
      detached: options.outlivesUs,
      env: {
        NODE_NAME: name,
        NODE_DIR: dir,
        NODE_ADDRESS: address,
        POD_SUBNET: network.podSubnet(index),
        API_SERVER: `${network.apiServer.host} ${network.apiServer.port}`,
        VOLUME_GROUP: volumeGroup,
        THIN_VOLUME_GROUP: thin.volumeGroup,
        THIN_POOL: thin.pool,
        PAUSE_IMAGE: pauseImage,
        KUBELET: options.kubelet,
      },
    });
    await issueCredentials(controlPlane, name, address, dir);
    return new ClusterNode(options, machine, disks);
  }

  /** Starts it, with new disks if it has none, and waits until it is Ready. */
  async boot(): Promise<void> {
    const before = await this.#status();
    await this.#ensureDisks();
    await this.machine.start();
    // A node that was just killed still counts as Ready: its boot ID distinguishes the boots.
    await this.#until('it is Ready', (now) => now?.ready === 'True' && now.bootId !== before?.bootId);
  }

  /** Power loss. */
  async kill(): Promise<void> {
    await this.machine.powerLoss();
  }

  /** Power loss with the loss of all disks. */
  async wipe(): Promise<void> {
    await this.machine.powerLoss();
    for (const disk of [...this.#disks.lvm, this.#disks.system]) await rm(disk, { force: true });
  }

  /** Shuts it down cleanly. */
  async powerOff(): Promise<void> {
    await this.machine.powerOff();
  }

  /** Pulls the network cable. */
  async cut(): Promise<void> {
    await setPlugged(this.#options.namespaces, this.#options.index, false);
  }

  async heal(): Promise<void> {
    await setPlugged(this.#options.namespaces, this.#options.index, true);
  }

  /** Runs a script on the node as root and returns its output; works without the network too. */
  async shell(script: string, options?: CallOptions): Promise<string> {
    const result = await this.machine.sh(script, options);
    if (result.exitCode !== 0) {
      throw new Error(`on ${this.name}, exit code ${result.exitCode}: ${script}\n${result.stdout}${result.stderr}`);
    }
    return result.stdout;
  }

  async becomes(state: 'Ready' | 'NotReady'): Promise<void> {
    await this.#until(`it is ${state}`, (now) => now !== undefined && (now.ready === 'True') === (state === 'Ready'));
  }

  /** The last lines of its logs. */
  async tail(): Promise<string> {
    const logs = ['kubelet.log', 'containerd.log'].map(async (file) => {
      const text = await readFile(join(this.machine.dir, file), 'utf8').catch(() => '');
      return text && `--- ${this.name} ${file}\n${text.trimEnd().split('\n').slice(-12).join('\n')}`;
    });
    return [`--- ${this.name} console`, await this.machine.console(), ...(await Promise.all(logs))].join('\n');
  }

  async #ensureDisks(): Promise<void> {
    for (const disk of this.#disks.lvm) if (!existsSync(disk)) await createDisk(disk, lvmDiskBytes);
    if (!existsSync(this.#disks.system)) await copySystemDisk(this.#options.systemDisk, this.#disks.system);
  }

  async #until(what: string, holds: (status: NodeStatus | undefined) => boolean): Promise<void> {
    await eventually(`of ${this.name}, ${what}`, async () => holds(await this.#status()), {
      explain: () => this.tail(),
    });
  }

  async #status(): Promise<NodeStatus | undefined> {
    const node = await this.#options.kube.get(nodes, this.name);
    if (!node) return undefined;
    const ready = node.status?.conditions?.find(({ type }) => type === 'Ready')?.status ?? '';
    return { bootId: node.status?.nodeInfo?.bootID ?? '', ready };
  }
}

interface NodeDisks {
  readonly lvm: readonly string[];
  readonly system: string;
}

interface NodeStatus {
  readonly bootId: string;
  readonly ready: string;
}

/** The credentials that the kubelet needs as a client and as a server. */
async function issueCredentials(plane: ControlPlane, name: string, address: string, dir: string): Promise<void> {
  const subject = `/O=system:nodes/CN=system:node:${name}`;
  const [kubeconfig, serving] = await Promise.all([
    plane.authority.kubeconfig(name, subject, plane.url),
    plane.authority.server(`${name}-serving`, subject, [`IP:${address}`, `DNS:${name}`]),
  ]);
  await copyFile(kubeconfig, join(dir, 'kubelet.kubeconfig'));
  await copyFile(serving.certificate, join(dir, 'kubelet.crt'));
  await copyFile(serving.key, join(dir, 'kubelet.key'));
  await copyFile(plane.authority.certificate, join(dir, 'ca.crt'));
}
