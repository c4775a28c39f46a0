import { onDrain, onNodeRemoval, onScaleDown, reserve } from '../api/names.ts';
import type { Finding } from './explanation.ts';
import type { Claim } from './known.ts';

/** Annotations of claims that decide what happens later, and what a word that is none of theirs leads to. */
const policies = [
  {
    annotation: onDrain.annotation,
    words: onDrain.policies,
    effect: 'its pod is not evicted when its node is drained',
  },
  {
    annotation: onNodeRemoval.annotation,
    words: onNodeRemoval.policies,
    effect: 'it waits for a person when its node is removed',
  },
  { annotation: onScaleDown.annotation, words: onScaleDown.policies, effect: 'it is kept when its pod is scaled away' },
  { annotation: reserve.annotation, words: reserve.words, effect: 'no CPU and memory is kept for its pod' },
] as const;

/** A claim works with an invalid policy until the policy matters, which is too late to notice. */
export function policyReason({ metadata: { name, namespace, annotations = {} } }: Claim): Finding | undefined {
  for (const { annotation, words, effect } of policies) {
    const word = annotations[annotation];
    if (word === undefined || words.some((each) => each === word)) continue;
    const is = `${annotation} is ${JSON.stringify(word)}`;
    const choice = `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`;
    return {
      code: 'InvalidPolicy',
      verb: 'has an invalid policy',
      cause: `${is}, so ${effect}`,
      advice: `use ${choice}`,
      evidence: [`claim ${name}: ${is}`],
      remedy: [`kubectl annotate --overwrite pvc ${name} -n ${namespace} ${annotation}=WORD # ${choice}`],
    };
  }
  return undefined;
}
