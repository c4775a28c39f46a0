import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { stringify } from 'yaml';
import { parameters, topologyKey } from '../../src/api/names.ts';
import { nodes } from '../../src/kube/resource.ts';
import { RpcClient } from '../../src/rpc/client.ts';
import { Controller } from '../../src/rpc/gen/csi/v1/csi_pb.ts';
import type { Cluster } from '../../worlds/cluster/cluster.ts';
import { type ClusterNode, volumeGroup } from '../../worlds/cluster/cluster-node.ts';
import { Component } from '../../worlds/cluster/component.ts';
import { eventually } from '../../worlds/host/eventually.ts';
import { quote } from '../../worlds/machine/quote.ts';
import { filesystem } from './capability.ts';

export const sideNames = ['topolvm', 'moorage'] as const;
export type SideName = (typeof sideNames)[number];

const deviceClass = 'lvm';
export const volumeBytes = 64n * 1024n ** 2n;
export const grownBytes = 2n * volumeBytes;
const timeoutMs = 120_000;
const startTimeoutMs = 60_000;
/** A delay after a turn: a side paused in the middle of an LVM report would keep LVM's lock. */
const restMs = 1_500;

export interface Volume {
  readonly id: string;
  readonly context: Readonly<Record<string, string>>;
}

/** The directory of a side, the same on the host and in the machine, and the settings of its programs. */
export interface Place {
  readonly dir: string;
  readonly nodeName: string;
  readonly kubeconfig: string;
  readonly config: string;
  readonly lvmdSocket: string;
  readonly nodeSocket: string;
  readonly controllerSocket: string;
}

/** How a side is started. */
export interface SidePrograms {
  readonly name: SideName;
  /** The programs of its node in their start order, each with the socket that it serves. */
  readonly agents: (place: Place) => readonly { readonly command: readonly string[]; readonly socket: string }[];
  readonly controller: (place: Place) => readonly string[];
  /** Whether its node service requires staging. */
  readonly stages: boolean;
}

/**
 * TopoLVM or Moorage: its controller runs beside the API server, its node's programs in the machine. Both use the volume group
 * of that machine. In Kubernetes each has its own Node, so that neither serves volumes of the other.
 */
export class Side {
  readonly name: SideName;
  readonly stages: boolean;
  readonly nodeSocket: string;
  /** In the machine. */
  readonly agentPids: readonly number[];
  readonly #node: ClusterNode;
  readonly #nodeName: string;
  readonly #controllerSocket: string;
  readonly #component: Component;
  readonly #controller: RpcClient<typeof Controller>;

  private constructor(
    { name, stages }: SidePrograms,
    node: ClusterNode,
    { nodeName, nodeSocket, controllerSocket }: Place,
    component: Component,
    agentPids: readonly number[],
  ) {
    this.name = name;
    this.stages = stages;
    this.nodeSocket = nodeSocket;
    this.agentPids = agentPids;
    this.#node = node;
    this.#nodeName = nodeName;
    this.#controllerSocket = controllerSocket;
    this.#component = component;
    this.#controller = new RpcClient(Controller, controllerSocket);
  }

  /** Resolves when it can create volumes. */
  static async start(cluster: Cluster, node: ClusterNode, programs: SidePrograms): Promise<Side> {
    const place = await placeOf(cluster, programs.name);
    await cluster.kube.create(nodes, { metadata: { name: place.nodeName }, spec: { unschedulable: true } });
    const argv = programs.controller(place);
    const component = new Component(cluster.namespaces, place.dir, `${programs.name}-controller`, argv, {
      KUBECONFIG: place.kubeconfig,
    });
    cluster.components.push(component);
    component.start();
    const log = join(place.dir, 'agent.log');
    const explain = async () => `${await component.tail()}\n${await node.shell(`tail -n 20 ${quote(log)}`)}`;
    const pids: number[] = [];
    for (const { command, socket } of programs.agents(place)) {
      const words = ['env', `KUBECONFIG=${place.kubeconfig}`, `NODE_NAME=${place.nodeName}`, ...command];
      const start = `setsid ${words.map(quote).join(' ')} </dev/null >>${quote(log)} 2>&1 & echo $!`;
      pids.push(Number(await node.shell(`mkdir -p ${quote(dirname(socket))}; ${start}`)));
      const isThere = async () => (await node.machine.sh(`test -S ${quote(socket)}`)).exitCode === 0;
      await eventually(`${programs.name} has created ${socket}`, isThere, { timeoutMs: startTimeoutMs, explain });
    }
    const side = new Side(programs, node, place, component, pids);
    await eventually(`${programs.name} creates a volume`, async () => side.delete(await side.create('first')), {
      timeoutMs: startTimeoutMs,
      explain,
    });
    return side;
  }

  /** Another client of the same controller, with its own connection. */
  another(): RpcClient<typeof Controller> {
    return new RpcClient(Controller, this.#controllerSocket);
  }

  async create(name: string, client = this.#controller): Promise<Volume> {
    const { volume } = await client.methods.createVolume(
      {
        name: `${this.name}-${name}`,
        capacityRange: { requiredBytes: volumeBytes },
        volumeCapabilities: [filesystem],
        parameters: { [parameters.deviceClass]: deviceClass },
        accessibilityRequirements: { requisite: [{ segments: { [topologyKey]: this.#nodeName } }] },
      },
      { timeoutMs },
    );
    if (!volume) throw new Error(`${this.name} returned no volume from CreateVolume`);
    return { id: volume.volumeId, context: volume.volumeContext };
  }

  async grow({ id }: Volume): Promise<void> {
    const request = { volumeId: id, capacityRange: { requiredBytes: grownBytes }, volumeCapability: filesystem };
    await this.#controller.methods.controllerExpandVolume(request, { timeoutMs });
  }

  async delete({ id }: Volume, client = this.#controller): Promise<true> {
    await client.methods.deleteVolume({ volumeId: id }, { timeoutMs });
    return true;
  }

  /** Starts its turn: it catches up with missed changes, which is not measured. */
  async resume(): Promise<void> {
    await this.#component.resume();
    await this.#node.shell(`kill -CONT ${this.agentPids.join(' ')}`);
    await this.delete(await this.create('warm-up'));
  }

  async pause(): Promise<void> {
    await delay(restMs);
    await this.#component.pause();
    await this.#node.shell(`kill -STOP ${this.agentPids.join(' ')}`);
  }

  /** The programs of its node end with the machine. */
  async close(): Promise<void> {
    this.#controller[Symbol.dispose]();
    await this.#component.kill();
  }
}

async function placeOf(cluster: Cluster, name: SideName): Promise<Place> {
  const dir = join(cluster.dir, name);
  await mkdir(dir, { recursive: true });
  const { authority, url } = cluster.controlPlane;
  const place = {
    dir,
    nodeName: name,
    kubeconfig: await authority.kubeconfig(name, `/O=system:masters/CN=${name}`, url),
    config: join(dir, 'lvmd.yaml'),
    lvmdSocket: `/run/${name}/lvmd.sock`,
    nodeSocket: `/run/${name}/node.sock`,
    controllerSocket: join(dir, 'csi.sock'),
  };
  const config = {
    'socket-name': place.lvmdSocket,
    'lvm-command-prefix': ['/sbin/lvm'],
    'device-classes': [{ name: deviceClass, 'volume-group': volumeGroup, default: true, 'spare-gb': 0 }],
  };
  await writeFile(place.config, stringify(config));
  return place;
}
