import { type Annotated, capacityText, requestedBytes } from './capacity-request.ts';
import type { Divisors } from './scheduler-config.ts';

/** One answer of the extender, as kube-scheduler reads it. */
export interface HostPriority {
  readonly host: string;
  readonly score: number;
}

const gibi = 1024n ** 3n;
const maxScore = 10;

/** Scores each node by the room of its tightest class among those that the pod asks for; more room is better. */
export function prioritize(pod: Annotated, nodes: readonly Annotated[], divisors: Divisors): HostPriority[] {
  const classes = [...requestedBytes(pod).keys()];
  if (classes.length === 0) return [];
  return nodes.map((node) => ({ host: node.metadata.name ?? '', score: scoreOf(node, classes, divisors) }));
}

function scoreOf(node: Annotated, classes: readonly string[], divisors: Divisors): number {
  const scores = classes.flatMap((deviceClass) => {
    const capacity = capacityText(node, deviceClass);
    return capacity === undefined ? [] : [capacityScore(capacity, divisors.of(deviceClass))];
  });
  return scores.length === 0 ? 0 : Math.min(...scores);
}

/** The logarithm of the GiB over the divisor, from 1 to 10; 0 only for nothing at all. */
function capacityScore(capacity: string, divisor: number): number {
  const bytes = /^\d+$/.test(capacity) ? BigInt(capacity) : 0n;
  if (bytes === 0n) return 0;
  const score = Math.trunc(Math.log2(Number(bytes / gibi) / divisor)); // minus infinity below one GiB
  return Math.min(Math.max(score, 1), maxScore);
}
