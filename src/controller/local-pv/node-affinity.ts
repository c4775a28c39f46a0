import type { PersistentVolume } from '../../kube/resource.ts';

type Selector = NonNullable<NonNullable<NonNullable<PersistentVolume['spec']>['nodeAffinity']>['required']>;
type Term = Selector['nodeSelectorTerms'][number];
type Requirement = NonNullable<Term['matchExpressions']>[number];

/** What a node affinity can select a Node by. */
export interface LabelledNode {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
}

/** Whether the node affinity of the PersistentVolume selects the Node, as the scheduler decides it. */
export function selects({ spec }: PersistentVolume, node: LabelledNode): boolean {
  const terms = spec?.nodeAffinity?.required?.nodeSelectorTerms ?? [];
  return terms.some((term) => isMatch(term, node));
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
export function affinityText({ spec }: PersistentVolume): string {
  const terms = spec?.nodeAffinity?.required?.nodeSelectorTerms ?? [];
  const text = ({ key, operator, values = [] }: Requirement) =>
    `${key} ${operator}${values.length > 0 ? ` (${values.join(', ')})` : ''}`;
  const texts = terms.map(({ matchExpressions = [], matchFields = [] }) =>
    [...matchExpressions, ...matchFields].map(text).join(' and '),
  );
  return texts.join(' or ') || '(empty)';
}
