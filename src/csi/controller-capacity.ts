import { parameters } from '../names.ts';
import type { Controller } from '../rpc/gen/csi/v1/csi_pb.ts';
import type { Implementation } from '../rpc/server.ts';
import { nodeOf } from './topology.ts';
import type { NodeCapacities } from './volume-store.ts';

export function capacityCalls({ capacities }: { readonly capacities: NodeCapacities }) {
  return {
    async getCapacity({ accessibleTopology, parameters: given }) {
      const free = capacities.freeBytes(given[parameters.deviceClass] ?? '');
      if (!accessibleTopology) return roomOf([...free.values()]);
      return roomOf([free.get(nodeOf(accessibleTopology) ?? '') ?? 0n]);
    },
  } satisfies Implementation<typeof Controller>;
}

/** No volume can be larger than the roomiest node, however much there is in all. */
function roomOf(free: readonly bigint[]): { availableCapacity: bigint; maximumVolumeSize: bigint } {
  return {
    availableCapacity: free.reduce((sum, bytes) => sum + bytes, 0n),
    maximumVolumeSize: free.reduce((most, bytes) => (bytes > most ? bytes : most), 0n),
  };
}
