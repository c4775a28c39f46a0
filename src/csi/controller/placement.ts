import { topologyKey } from '../../api/names.ts';
import { InvalidInput, MoorageError } from '../../base/errors.ts';
import type { Topology, TopologyRequirement } from '../../rpc/gen/csi/v1/csi_pb.ts';
import type { NodeCapacities } from './volume-store.ts';

export interface PlacementRequest {
  /** The nodes that the caller accepts, best first; undefined if it accepts any. */
  readonly candidates: readonly string[] | undefined;
  /** Empty for each node's default. */
  readonly deviceClass: string;
  readonly sizeBytes: bigint;
  readonly isLimited: boolean;
}

export type NodeNames = readonly [string, ...string[]];

/**
 * The nodes for a new volume, best first. Full nodes are included: a retried call must find the volume of the first call,
 * which may have used the last free space.
 */
export function chooseNodes(
  { candidates, deviceClass, sizeBytes, isLimited }: PlacementRequest,
  capacities: NodeCapacities,
): NodeNames {
  const free = capacities.freeBytes(deviceClass);
  const hasRoom = (name: string) => (free.get(name) ?? -1n) >= sizeBytes;
  const byRoom = [...free].sort(([, a], [, b]) => (a < b ? 1 : -1)).map(([name]) => name);
  const leaving = capacities.leaving();
  const inOrder = (candidates ?? byRoom).filter((name) => !leaving.has(name));
  const [node, ...others] = [...inOrder.filter(hasRoom), ...inOrder.filter((name) => !hasRoom(name))];
  if (node === undefined) throw candidates?.length ? new NodesLeaving(candidates) : new NoNodeOffers(deviceClass);
  return isLimited ? nodesLimitingIo([node, ...others], capacities) : [node, ...others];
}

/** The nodes that can enforce IO limits. */
export function nodesLimitingIo(nodeNames: NodeNames, capacities: Pick<NodeCapacities, 'limitingIo'>): NodeNames {
  const able = capacities.limitingIo();
  const [node, ...others] = nodeNames.filter((name) => able.has(name));
  if (node === undefined) throw new LimitsNotOffered(nodeNames);
  return [node, ...others];
}

export class NoNodeOffers extends MoorageError {
  readonly code = 'ResourceExhausted';

  constructor(deviceClass: string) {
    const which = deviceClass === '' ? 'a default device class' : `device class ${deviceClass}`;
    super(`no node offers ${which}; check the configuration of the nodes, and that moorage node runs there`);
  }
}

/** Its code has the pod scheduled again. */
export class NodesLeaving extends MoorageError {
  readonly code = 'ResourceExhausted';

  constructor(nodeNames: readonly string[]) {
    super(`node ${nodeNames.join(' or ')} is being deleted and gets no new volumes; the pod must run on another node`);
  }
}

export class LimitsNotOffered extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(nodeNames: NodeNames) {
    super(
      `node ${nodeNames.join(' or ')} cannot limit the IO of a volume; ` +
        'use a claim without a VolumeAttributesClass, or enable cgroup v2 with the io controller on the node',
    );
  }
}

/** The nodes that the request accepts, best first; undefined if it accepts any. */
export function candidateNodes(
  requirement: TopologyRequirement | undefined,
): readonly [string, ...string[]] | undefined {
  const inOrder = [...(requirement?.preferred ?? []), ...(requirement?.requisite ?? [])];
  if (inOrder.length === 0) return undefined;
  const [node, ...others] = new Set(inOrder.map(nodeOf).filter((name) => name !== undefined));
  if (node === undefined) {
    throw new InvalidInput(
      `accessibility_requirements name no node with the key ${topologyKey}; check that the driver is registered on the nodes`,
    );
  }
  return [node, ...others];
}

export function nodeOf(topology: Topology): string | undefined {
  return topology.segments[topologyKey];
}

/** A volume can be used only on its own node. */
export function topologyOf(nodeName: string): { segments: Record<string, string> } {
  return { segments: { [topologyKey]: nodeName } };
}
