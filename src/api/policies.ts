import { onDrain, onNodeRemoval, onScaleDown, reserve } from './names.ts';

/** What happens later to a claim: annotations of the claim, and most of them also parameters of its StorageClass. */
const known: readonly { readonly annotation: string; readonly policies: readonly string[] }[] = [
  onDrain,
  onNodeRemoval,
  onScaleDown,
  reserve,
];

/** A policy with a word that is none of its own. Nothing is done because of it. */
export interface InvalidPolicy {
  readonly annotation: string;
  readonly word: string;
  readonly policies: readonly string[];
}

/** Those among the annotations of a claim, or the parameters of a StorageClass. */
export function invalidPolicies(given: Readonly<Record<string, string>> = {}): readonly InvalidPolicy[] {
  return known.flatMap(({ annotation, policies }) => {
    const word = given[annotation];
    return word === undefined || policies.includes(word) ? [] : [{ annotation, word, policies }];
  });
}

export function invalidPolicyText({ annotation, word, policies }: InvalidPolicy): string {
  return `${annotation} is ${JSON.stringify(word)}; use one of ${policies.join(', ')}`;
}
