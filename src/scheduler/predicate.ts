import { type Annotated, capacityText, requestedBytes } from './capacity-request.ts';

export interface Predicate<N extends Annotated> {
  readonly fitting: readonly N[];
  /** Why the others do not fit, in TopoLVM's words, by name. */
  readonly failed: Readonly<Record<string, string>>;
}

/** The nodes that have room for all that the pod asks for. A pod that asks for nothing fits everywhere. */
export function predicate<N extends Annotated>(pod: Annotated, nodes: readonly N[]): Predicate<N> {
  const requested = requestedBytes(pod);
  const fitting: N[] = [];
  const failed: Record<string, string> = {};
  for (const node of nodes) {
    const reason = whyNot(node, requested);
    if (reason === undefined) fitting.push(node);
    else failed[node.metadata.name ?? ''] = reason;
  }
  return { fitting, failed };
}

function whyNot(node: Annotated, requested: ReadonlyMap<string, bigint>): string | undefined {
  for (const [deviceClass, bytes] of requested) {
    const capacity = capacityText(node, deviceClass);
    if (capacity === undefined) return 'no capacity annotation';
    if (!/^\d+$/.test(capacity)) return `bad capacity annotation: ${capacity}`;
    if (BigInt(capacity) < bytes) return 'out of VG free space';
  }
  return undefined;
}
