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

interface Annotated {
  readonly metadata?: { readonly annotations?: Readonly<Record<string, string>> };
}

interface Recording extends Annotated {
  readonly spec?: { readonly csi?: { readonly volumeAttributes?: Readonly<Record<string, string>> } };
}

/** The word of a policy for a claim: its own annotation decides, then what its volume has recorded of its StorageClass. */
export function policyWord(annotation: string, claim: Annotated, volume: Recording | undefined): string | undefined {
  // A static volume has annotations.
  const recorded = volume?.spec?.csi ? volume.spec.csi.volumeAttributes : volume?.metadata?.annotations;
  return claim.metadata?.annotations?.[annotation] ?? recorded?.[annotation];
}
