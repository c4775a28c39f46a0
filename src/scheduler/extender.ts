import * as v from 'valibot';
import { capacityAnnotationPrefix } from '../api/names.ts';
import { InvalidInput } from '../base/errors.ts';
import type { Answer } from '../http/json-server.ts';
import type { Divisors } from './scheduler-config.ts';

const annotated = v.looseObject({
  metadata: v.looseObject({
    name: v.optional(v.string()),
    annotations: v.nullish(v.record(v.string(), v.string())),
  }),
});
const extenderArgs = v.object({
  pod: annotated,
  nodes: v.looseObject({ items: v.nullish(v.array(annotated), []) }),
});

/** The answers of the scheduler extender, by path, in the format of TopoLVM and kube-scheduler. */
export function extender(divisors: Divisors): Readonly<Record<string, Answer>> {
  return {
    '/predicate': (body) => {
      const { pod, nodes } = parseArgs(body);
      const { fitting, failed } = predicate(pod, nodes.items);
      return { nodes: { ...nodes, items: fitting }, failedNodes: failed };
    },
    '/prioritize': (body) => {
      const { pod, nodes } = parseArgs(body);
      return prioritize(pod, nodes.items, divisors);
    },
    '/status': () => 'ok',
  };
}

/** kube-scheduler writes `Pod`, TopoLVM's own clients write `pod`; Go reads both. */
function parseArgs(body: unknown): v.InferOutput<typeof extenderArgs> {
  const args = Object.fromEntries(
    Object.entries(Object(body) as object).map(([key, value]) => [key.toLowerCase(), value]),
  );
  const result = v.safeParse(extenderArgs, args);
  if (result.success) return result.output;
  const [issue] = result.issues;
  const remedy = 'send Pod and Nodes, as kube-scheduler does for an extender with nodeCacheCapable: false';
  throw new InvalidInput(`${v.getDotPath(issue) ?? 'the body'}: ${issue.message}; ${remedy}`);
}

export interface Predicate<N extends Annotated> {
  readonly fitting: readonly N[];
  /** Why the others do not fit, by name, with TopoLVM's messages. */
  readonly failed: Readonly<Record<string, string>>;
}

/** The nodes with enough space for all requests of the pod. A pod without requests fits everywhere. */
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

/** The fields of a Pod or a Node that the extender reads. */
export interface Annotated {
  readonly metadata: {
    readonly name?: string | undefined;
    readonly annotations?: Readonly<Record<string, string>> | null | undefined;
  };
}

/** The requests that the pod webhook wrote on a pod, by device class; values that are not numbers are ignored. */
export function requestedBytes(pod: Annotated): ReadonlyMap<string, bigint> {
  const requested = new Map<string, bigint>();
  for (const [key, value] of Object.entries(pod.metadata.annotations ?? {})) {
    const isRequest = key.startsWith(capacityAnnotationPrefix) && /^\d+$/.test(value);
    if (isRequest) requested.set(key.slice(capacityAnnotationPrefix.length), BigInt(value));
  }
  return requested;
}

/** The capacity annotation of a node for a device class; undefined if there is none. */
export function capacityText(node: Annotated, deviceClass: string): string | undefined {
  return node.metadata.annotations?.[`${capacityAnnotationPrefix}${deviceClass}`];
}

/** One score, in kube-scheduler's format. */
export interface HostPriority {
  readonly host: string;
  readonly score: number;
}

const gibi = 1024n ** 3n;
const maxScore = 10;

/** The score of a node is the lowest score of the requested classes; more free capacity is better. */
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

/** The logarithm of the GiB divided by the divisor, from 1 to 10; 0 only for no capacity at all. */
function capacityScore(capacity: string, divisor: number): number {
  const bytes = /^\d+$/.test(capacity) ? BigInt(capacity) : 0n;
  if (bytes === 0n) return 0;
  const score = Math.trunc(Math.log2(Number(bytes / gibi) / divisor)); // minus infinity below one GiB
  return Math.min(Math.max(score, 1), maxScore);
}
