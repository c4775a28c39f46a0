import { InvalidInput } from '../base/errors.ts';
import { topologyKey } from '../names.ts';
import type { Topology, TopologyRequirement } from '../rpc/gen/csi/v1/csi_pb.ts';

/** The nodes where a volume may be, best first; undefined if the caller does not care. */
export function candidateNodes(
  requirement: TopologyRequirement | undefined,
): readonly [string, ...string[]] | undefined {
  const inOrder = [...(requirement?.preferred ?? []), ...(requirement?.requisite ?? [])];
  if (inOrder.length === 0) return undefined;
  const [node, ...others] = new Set(inOrder.map(nodeOf).filter((name) => name !== undefined));
  if (node === undefined) {
    throw new InvalidInput(
      `accessibility_requirements name no node by ${topologyKey}; check that the driver is registered on the nodes`,
    );
  }
  return [node, ...others];
}

export function nodeOf(topology: Topology): string | undefined {
  return topology.segments[topologyKey];
}

/** Where a volume of this node can be used: there, and nowhere else. */
export function topologyOf(nodeName: string): { segments: Record<string, string> } {
  return { segments: { [topologyKey]: nodeName } };
}
