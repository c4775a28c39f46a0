import { type Controller, ControllerServiceCapability_RPC_Type as RpcType } from '../rpc/gen/csi/v1/csi_pb.ts';
import type { Implementation } from '../rpc/server.ts';
import { capacityCalls } from './controller-capacity.ts';
import { snapshotCalls } from './controller-snapshots.ts';
import { type ControllerPorts, volumeCalls } from './controller-volumes.ts';

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

/** CSI's controller: each call in the file of its subject. */
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
