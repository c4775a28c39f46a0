import type { V1Container } from '@kubernetes/client-node';
import { capacityResource } from '../api/names.ts';
import { parseMilliQuantity, parseQuantity } from '../base/quantity.ts';
import type { Node, Pod, Wire } from '../kube/resource.ts';

type Container = Wire<V1Container>;

/** By resource name; CPUs in thousandths. */
type Amounts = ReadonlyMap<string, bigint>;

/** A resource that a node does not have enough of: for people, what is needed and what is left. */
export interface Shortage {
  readonly resource: string;
  readonly needed: string;
  readonly left: string;
  /** Whether the node would not have enough without any other pod. */
  readonly isTooLarge: boolean;
}

/** What the node lacks for one more pod, given the pods that it has, as kube-scheduler counts. */
export function shortages(pod: Pod, { status }: Node, others: readonly Pod[]): readonly Shortage[] {
  const allocatable = amounts(status?.allocatable ?? {});
  const running = others.filter((other) => !isOver(other) && !isSame(other, pod));
  const taken = sum(running.map(requestsOf));
  return [...requestsOf(pod)].flatMap(([resource, needed]) => {
    const all = allocatable.get(resource) ?? 0n;
    const left = all - (taken.get(resource) ?? 0n);
    if (needed <= left) return [];
    return [{ resource, needed: textOf(resource, needed), left: textOf(resource, left), isTooLarge: needed > all }];
  });
}

function isOver({ status }: Pod): boolean {
  return status?.phase === 'Succeeded' || status?.phase === 'Failed';
}

function isSame(a: Pod, b: Pod): boolean {
  return a.metadata?.name === b.metadata?.name && a.metadata?.namespace === b.metadata?.namespace;
}

/**
 * What a pod takes of a node. Init containers run one after the other before the containers, except those that are restarted,
 * which stay; requests of the pod itself replace the sum.
 */
function requestsOf({ spec }: Pod): Amounts {
  let staying: Amounts = new Map();
  let peak: Amounts = new Map();
  for (const container of spec?.initContainers ?? []) {
    if (container.restartPolicy === 'Always') {
      staying = sum([staying, ofContainer(container)]);
      peak = highest(peak, staying);
    } else peak = highest(peak, sum([staying, ofContainer(container)]));
  }
  const containers = highest(sum([staying, ...(spec?.containers ?? []).map(ofContainer)]), peak);
  const ofPod = amounts(spec?.resources?.requests ?? {});
  const total = sum([new Map([...containers, ...ofPod]), amounts(spec?.overhead ?? {}), new Map([['pods', 1n]])]);
  // The extender checks this one.
  return new Map([...total].filter(([resource, amount]) => amount > 0n && resource !== capacityResource));
}

/** A limit without a request is the request. */
function ofContainer({ resources }: Container): Amounts {
  return amounts({ ...resources?.limits, ...resources?.requests });
}

/** What a pod takes of a node, as a container would request it. */
export function effectiveRequests(pod: Pod): Readonly<Record<string, string>> {
  const resources = [...requestsOf(pod)].filter(([resource]) => resource !== 'pods');
  return Object.fromEntries(resources.map(([name, amount]) => [name, name === 'cpu' ? `${amount}m` : `${amount}`]));
}

function amounts(quantities: Readonly<Record<string, string>>): Amounts {
  return new Map(
    Object.entries(quantities).map(([resource, quantity]) => [
      resource,
      resource === 'cpu' ? parseMilliQuantity(quantity) : parseQuantity(quantity),
    ]),
  );
}

function sum(all: readonly Amounts[]): Amounts {
  const total = new Map<string, bigint>();
  for (const each of all) for (const [name, amount] of each) total.set(name, (total.get(name) ?? 0n) + amount);
  return total;
}

function highest(a: Amounts, b: Amounts): Amounts {
  const both = new Map(a);
  for (const [name, amount] of b) if (amount > (both.get(name) ?? 0n)) both.set(name, amount);
  return both;
}

/** For people, in the units that pods are written with. Never shows more than there is. */
function textOf(resource: string, amount: bigint): string {
  const left = amount < 0n ? 0n : amount;
  if (resource === 'cpu') return left % 1000n === 0n ? `${left / 1000n}` : `${left}m`;
  return resource === 'memory' || resource === 'ephemeral-storage' || resource.startsWith('hugepages-')
    ? `${left / 1024n ** 2n} MiB`
    : `${left}`;
}
