import type { V1NodeSelectorRequirement, V1NodeSelectorTerm, V1Taint, V1Toleration } from '@kubernetes/client-node';
import type { Node, Pod, Stored, Wire } from '../kube/resource.ts';

type Requirement = Wire<V1NodeSelectorRequirement>;
type Term = Wire<V1NodeSelectorTerm>;
type Taint = Wire<V1Taint>;
type Toleration = Wire<V1Toleration>;

/**
 * Why a pod cannot run on a node, by what its own spec says about nodes: selector, required node affinity, and tolerations.
 * Undefined if nothing speaks against it. Free CPU and memory, other pods and topology spread are left to the scheduler.
 */
export function refusedBy(pod: Pod, node: Stored<Node>): string | undefined {
  const { spec } = pod;
  const { labels = {} } = node.metadata;
  const selected = Object.entries(spec?.nodeSelector ?? {});
  const missing = selected.find(([key, value]) => labels[key] !== value);
  if (missing) return `it does not have the label ${missing.join('=')}`;
  const terms = spec?.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms;
  if (terms && !terms.some((term) => matches(term, node))) return 'it does not match the required node affinity';
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

/** Terms are alternatives; all expressions of a term must match. An empty term matches nothing. */
function matches({ matchExpressions = [], matchFields = [] }: Term, { metadata }: Stored<Node>): boolean {
  if (matchExpressions.length + matchFields.length === 0) return false;
  const fields = { 'metadata.name': metadata.name };
  return (
    matchExpressions.every((each) => meets(metadata.labels ?? {}, each)) &&
    matchFields.every((each) => meets(fields, each))
  );
}

function meets(labels: Readonly<Record<string, string>>, { key, operator, values = [] }: Requirement): boolean {
  const value = labels[key];
  const [bound = ''] = values;
  switch (operator) {
    case 'In':
      return value !== undefined && values.includes(value);
    case 'NotIn':
      return value === undefined || !values.includes(value);
    case 'Exists':
      return value !== undefined;
    case 'DoesNotExist':
      return value === undefined;
    case 'Gt':
      return value !== undefined && Number(value) > Number(bound);
    case 'Lt':
      return value !== undefined && Number(value) < Number(bound);
    default:
      return false;
  }
}
