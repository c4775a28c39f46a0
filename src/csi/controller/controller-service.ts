import { parameters } from '../../api/names.ts';
import { type Controller, ControllerServiceCapability_RPC_Type as RpcType } from '../../rpc/gen/csi/v1/csi_pb.ts';
import type { Implementation } from '../../rpc/server.ts';
import { nodeOf } from './placement.ts';
import { snapshotCalls } from './snapshots.ts';
import type { NodeCapacities } from './volume-store.ts';
import { type ControllerPorts, volumeCalls } from './volumes.ts';

const offered = [
  RpcType.CREATE_DELETE_VOLUME,
  RpcType.CLONE_VOLUME,
  RpcType.EXPAND_VOLUME,
  RpcType.LIST_VOLUMES,
  RpcType.GET_VOLUME,
  RpcType.SINGLE_NODE_MULTI_WRITER,
  RpcType.CREATE_DELETE_SNAPSHOT,
  RpcType.LIST_SNAPSHOTS,
  RpcType.GET_SNAPSHOT,
  RpcType.GET_CAPACITY,
];

/** CSI's controller service; each call is in the file of its subject. */
export function controllerService(ports: ControllerPorts): Implementation<typeof Controller> {
  return {
    ...volumeCalls(ports),
    ...snapshotCalls(ports),
    ...capacityCalls(ports),

    async controllerGetCapabilities() {
      const types = ports.capacities.mayLimitIo() ? [...offered, RpcType.MODIFY_VOLUME] : offered;
      return { capabilities: types.map((type) => ({ type: { case: 'rpc', value: { type } } })) };
    },
  };
}

export function capacityCalls({ capacities }: { readonly capacities: NodeCapacities }) {
  return {
    async getCapacity({ accessibleTopology, parameters: given }) {
      const free = capacities.freeBytes(given[parameters.deviceClass] ?? '');
      if (!accessibleTopology) return roomOf([...free.values()]);
      return roomOf([free.get(nodeOf(accessibleTopology) ?? '') ?? 0n]);
    },
  } satisfies Implementation<typeof Controller>;
}

/** A volume is on one node, so the node with the most free space limits its size. */
function roomOf(free: readonly bigint[]): { availableCapacity: bigint; maximumVolumeSize: bigint } {
  return {
    availableCapacity: free.reduce((sum, bytes) => sum + bytes, 0n),
    maximumVolumeSize: free.reduce((most, bytes) => (bytes > most ? bytes : most), 0n),
  };
}
