import type { V1Taint, V1Toleration } from '@kubernetes/client-node';
import { selects } from '../kube/node-selector.ts';
import type { Node, Pod, Stored, Wire } from '../kube/resource.ts';

type Taint = Wire<V1Taint>;
type Toleration = Wire<V1Toleration>;

/**
 * Why a pod cannot run on a node, by what its own spec says about nodes: selector, required node affinity, and tolerations.
 * Undefined if nothing speaks against it. Free CPU and memory, other pods and topology spread are left to the scheduler.
 */
export function refusedBy(pod: Pod, node: Stored<Node>): string | undefined {
  const { spec } = pod;
  const { name, labels = {} } = node.metadata;
  const selected = Object.entries(spec?.nodeSelector ?? {});
  const missing = selected.find(([key, value]) => labels[key] !== value);
  if (missing) return `it does not have the label ${missing.join('=')}`;
  const required = spec?.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution;
  if (required && !selects(required, { name, labels })) return 'it does not match the required node affinity';
  const taint = taintsOf(node).find((each) => !(spec?.tolerations ?? []).some((one) => tolerates(one, each)));
  return taint && `it has the taint ${taint.key}${taint.value ? `=${taint.value}` : ''}:${taint.effect}`;
}

function taintsOf({ spec }: Node): readonly Taint[] {
  const cordoned: Taint = { key: 'node.kubernetes.io/unschedulable', effect: 'NoSchedule' };
  const taints = [...(spec?.taints ?? []), ...(spec?.unschedulable ? [cordoned] : [])];
  return taints.filter(({ effect }) => effect === 'NoSchedule' || effect === 'NoExecute');
}

function tolerates({ key, operator, value, effect }: Toleration, taint: Taint): boolean {
  if (effect && effect !== taint.effect) return false;
  if (!key) return operator === 'Exists';
  return key === taint.key && (operator === 'Exists' || (value ?? '') === (taint.value ?? ''));
}
