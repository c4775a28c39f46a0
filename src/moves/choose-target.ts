import { formatBytes } from '../base/quantity.ts';
import { refusedBy } from '../kube/pod-constraints.ts';
import type { Node, Pod, Stored } from '../kube/resource.ts';

export interface TargetRequest {
  readonly sourceNode: string;
  /** Undefined: any node. */
  readonly targetNode: string | undefined;
  /** What must fit, by device class; the empty one is the default class. */
  readonly bytes: ReadonlyMap<string, bigint>;
  /** The pods that use the volumes. */
  readonly pods: readonly Pod[];
  /** Nodes that must not be chosen now, although they may later. */
  readonly busy: ReadonlySet<string>;
  /** Undefined if the node does not have the device class. */
  readonly freeBytes: (node: Stored<Node>, deviceClass: string) => bigint | undefined;
}

export type Target =
  | { readonly kind: 'node'; readonly name: string }
  | { readonly kind: 'busy'; readonly names: readonly string[] }
  | { readonly kind: 'none'; readonly reason: string };

/** The requested node, or the one with the most free space among those that the volumes and their pods can use. */
export function chooseTarget(request: TargetRequest, nodes: readonly Stored<Node>[]): Target {
  const { sourceNode, targetNode, busy } = request;
  if (targetNode === sourceNode) return { kind: 'none', reason: `the volume is on node ${sourceNode} already` };
  const others = nodes.filter(({ metadata }) => metadata.name !== sourceNode);
  const considered = targetNode === undefined ? others : others.filter(({ metadata }) => metadata.name === targetNode);
  if (considered.length === 0) {
    const reason = targetNode === undefined ? 'there is no other node' : `there is no node ${targetNode}`;
    return { kind: 'none', reason };
  }
  const obstacles = new Map(considered.map((node) => [node, obstacleOn(node, request)]));
  const possible = considered.filter((node) => obstacles.get(node) === undefined);
  if (possible.length === 0) return { kind: 'none', reason: reasonsOf(obstacles) };
  const idle = possible.filter(({ metadata }) => !busy.has(metadata.name));
  const [best] = idle.toSorted((a, b) => compare(leastFree(b, request), leastFree(a, request)));
  if (best) return { kind: 'node', name: best.metadata.name };
  return { kind: 'busy', names: possible.map(({ metadata }) => metadata.name) };
}

/** Why the volumes cannot move to a node; undefined if they can. */
function obstacleOn(node: Stored<Node>, { bytes, pods, freeBytes }: TargetRequest): string | undefined {
  if (node.metadata.deletionTimestamp) return 'it is being deleted';
  const ready = node.status?.conditions?.find(({ type }) => type === 'Ready');
  if (ready && ready.status !== 'True') return 'it is not ready';
  for (const [deviceClass, needed] of bytes) {
    const free = freeBytes(node, deviceClass);
    if (free === undefined) return `it has no device class ${deviceClass || '(default)'}`;
    if (free < needed) return `it has ${formatBytes(free)} free, ${formatBytes(needed)} are needed`;
  }
  for (const pod of pods) {
    const reason = refusedBy(pod, node);
    if (reason) return `pod ${pod.metadata?.name} cannot run there: ${reason}`;
  }
  return undefined;
}

/** A cluster may have many nodes: only the first are listed. */
const listed = 5;

function reasonsOf(obstacles: ReadonlyMap<Stored<Node>, string | undefined>): string {
  const all = [...obstacles].map(([{ metadata }, obstacle]) => `node ${metadata.name}: ${obstacle}`);
  const more = all.length > listed ? ` and ${all.length - listed} more` : '';
  return `${all.slice(0, listed).join('; ')}${more}`;
}

/** What is left in the fullest of its classes. */
function leastFree(node: Stored<Node>, { bytes, freeBytes }: TargetRequest): bigint {
  const left = [...bytes].map(([deviceClass, needed]) => (freeBytes(node, deviceClass) ?? 0n) - needed);
  return left.reduce((least, each) => (each < least ? each : least));
}

function compare(a: bigint, b: bigint): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
