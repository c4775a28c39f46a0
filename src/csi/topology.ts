import { InvalidInput } from '../base/errors.ts';
import { topologyKey } from '../names.ts';
import type { Topology, TopologyRequirement } from '../rpc/gen/csi/v1/csi_pb.ts';

/** The nodes where a volume may be, best first; empty if the caller does not care. */
export function candidateNodes(requirement: TopologyRequirement | undefined): readonly string[] {
  const inOrder = [...(requirement?.preferred ?? []), ...(requirement?.requisite ?? [])];
  const nodes = inOrder.map(nodeOf).filter((node) => node !== undefined);
  if (inOrder.length > 0 && nodes.length === 0) {
    throw new InvalidInput(
      `accessibility_requirements name no node by ${topologyKey}; check that the driver is registered on the nodes`,
    );
  }
  return [...new Set(nodes)];
}

export function nodeOf(topology: Topology): string | undefined {
  return topology.segments[topologyKey];
}

/** Where a volume of this node can be used: there, and nowhere else. */
export function topologyOf(nodeName: string): { segments: Record<string, string> } {
  return { segments: { [topologyKey]: nodeName } };
}
