import type { V1Taint, V1Toleration } from '@kubernetes/client-node';
import { selectorText, selects } from './node-selector.ts';
import type { Node, Pod, Stored, Wire } from './resource.ts';

type Taint = Wire<V1Taint>;
type Toleration = Wire<V1Toleration>;

/** Why a pod cannot run on a node, by what the pod says about nodes. `text` continues a sentence about the node. */
export interface PodConstraint {
  readonly kind: 'cordoned' | 'not-ready' | 'taint' | 'label' | 'affinity';
  readonly text: string;
}

/**
 * Everything in a pod's spec that keeps it from a node: tolerations, selector, and required node affinity. Free CPU and
 * memory, other pods and topology spread are left to the scheduler.
 */
export function podConstraints({ spec }: Pod, node: Stored<Node>): readonly PodConstraint[] {
  const { name, labels = {} } = node.metadata;
  const tolerations = spec?.tolerations ?? [];
  const taints = taintsOf(node).filter((taint) => !tolerations.some((one) => tolerates(one, taint)));
  const missing = Object.entries(spec?.nodeSelector ?? {}).filter(([key, value]) => labels[key] !== value);
  const required = spec?.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution;
  const constraints: readonly PodConstraint[] = [
    ...taints.map(ofTaint),
    ...missing.map((label) => ({ kind: 'label', text: `it does not have the label ${label.join('=')}` }) as const),
    ...(required && !selects(required, { name, labels })
      ? [{ kind: 'affinity', text: `it does not match the required node affinity ${selectorText(required)}` } as const]
      : []),
  ];
  // A node that is not ready has several taints.
  const said = new Set<string>();
  return constraints.filter(({ text }) => !said.has(text) && said.add(text));
}

/** The first of them; undefined if nothing speaks against the node. */
export function refusedBy(pod: Pod, node: Stored<Node>): string | undefined {
  return podConstraints(pod, node)[0]?.text;
}

function taintsOf({ spec }: Node): readonly Taint[] {
  const cordoned: Taint = { key: cordonTaint, effect: 'NoSchedule' };
  const taints = [...(spec?.unschedulable ? [cordoned] : []), ...(spec?.taints ?? [])];
  return taints.filter(({ effect }) => effect === 'NoSchedule' || effect === 'NoExecute');
}

const cordonTaint = 'node.kubernetes.io/unschedulable';

/** Taints that Kubernetes sets itself, in words. */
const ownTaints: Readonly<Record<string, PodConstraint>> = {
  [cordonTaint]: { kind: 'cordoned', text: 'it is cordoned' },
  'node.kubernetes.io/not-ready': { kind: 'not-ready', text: 'it is not ready' },
  'node.kubernetes.io/unreachable': { kind: 'not-ready', text: 'its kubelet does not answer' },
};

function ofTaint({ key, value, effect }: Taint): PodConstraint {
  return ownTaints[key] ?? { kind: 'taint', text: `it has the taint ${key}${value ? `=${value}` : ''}:${effect}` };
}

function tolerates({ key, operator, value, effect }: Toleration, taint: Taint): boolean {
  if (effect && effect !== taint.effect) return false;
  if (!key) return operator === 'Exists';
  return key === taint.key && (operator === 'Exists' || (value ?? '') === (taint.value ?? ''));
}
