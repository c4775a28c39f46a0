import type {
  V1LabelSelector,
  V1NodeSelector,
  V1NodeSelectorRequirement,
  V1NodeSelectorTerm,
  V1TopologySelectorTerm,
} from '@kubernetes/client-node';
import type { Wire } from './resource.ts';

/** The required node affinity of a pod or a PersistentVolume. */
type Selector = Wire<V1NodeSelector>;
type Term = Wire<V1NodeSelectorTerm>;
type Requirement = Wire<V1NodeSelectorRequirement>;

/** What a Node is selected by. */
export interface LabelledNode {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
}

/** Whether the Node is selected, as the scheduler decides it. */
export function selects(selector: Selector | undefined, node: LabelledNode): boolean {
  return (selector?.nodeSelectorTerms ?? []).some((term) => isMatch(term, node));
}

/** Whether a label selector selects an object with these labels. An empty one selects everything. */
export function matchesLabels(selector: Wire<V1LabelSelector>, labels: Readonly<Record<string, string>>): boolean {
  const { matchLabels = {}, matchExpressions = [] } = selector;
  return (
    Object.entries(matchLabels).every(([key, value]) => isMet({ key, operator: 'In', values: [value] }, labels)) &&
    matchExpressions.every((requirement) => isMet(requirement, labels))
  );
}

/** Whether `allowedTopologies` of a StorageClass allows volumes on a node with these labels. None allows every node. */
export function allowsNode(
  terms: readonly Wire<V1TopologySelectorTerm>[] = [],
  labels: Readonly<Record<string, string>>,
): boolean {
  const isAllowed = ({ matchLabelExpressions = [] }: Wire<V1TopologySelectorTerm>) =>
    matchLabelExpressions.every(({ key, values }) => isMet({ key, operator: 'In', values }, labels));
  return terms.length === 0 || terms.some(isAllowed);
}

/** A term without any requirement selects nothing. */
function isMatch({ matchExpressions = [], matchFields = [] }: Term, { name, labels }: LabelledNode): boolean {
  if (matchExpressions.length + matchFields.length === 0) return false;
  const fields: Readonly<Record<string, string>> = { 'metadata.name': name };
  return (
    matchExpressions.every((requirement) => isMet(requirement, labels)) &&
    matchFields.every((requirement) => isMet(requirement, fields))
  );
}

function isMet({ key, operator, values = [] }: Requirement, facts: Readonly<Record<string, string>>): boolean {
  const value = Object.hasOwn(facts, key) ? facts[key] : undefined;
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
      return compared(value, values) > 0;
    case 'Lt':
      return compared(value, values) < 0;
    default:
      return false;
  }
}

/** 0 also if one of them is not a whole number: then neither is greater. */
function compared(value: string | undefined, [limit]: readonly string[]): number {
  const [own, other] = [wholeNumber(value), wholeNumber(limit)];
  if (own === undefined || other === undefined) return 0;
  return Number(own > other) - Number(own < other);
}

function wholeNumber(text: string | undefined): bigint | undefined {
  return text !== undefined && /^-?\d+$/.test(text) ? BigInt(text) : undefined;
}

/** For people: `kubernetes.io/hostname In (worker-1)`. */
export function selectorText(selector: Selector | undefined): string {
  const terms = selector?.nodeSelectorTerms ?? [];
  const text = ({ key, operator, values = [] }: Requirement) =>
    `${key} ${operator}${values.length > 0 ? ` (${values.join(', ')})` : ''}`;
  const texts = terms.map(({ matchExpressions = [], matchFields = [] }) =>
    [...matchExpressions, ...matchFields].map(text).join(' and '),
  );
  return texts.join(' or ') || '(empty)';
}
