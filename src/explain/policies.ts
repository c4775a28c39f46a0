import { onDrain, onNodeRemoval, onScaleDown, reserve } from '../api/names.ts';
import { invalidPolicies } from '../api/policies.ts';
import type { Finding } from './explanation.ts';
import type { Claim } from './known.ts';

/** What an invalid policy leads to. */
const effects: Readonly<Record<string, string>> = {
  [onDrain.annotation]: 'its pod is not evicted when its node is drained',
  [onNodeRemoval.annotation]: 'it waits for a person when its node is removed',
  [onScaleDown.annotation]: 'it is kept when its pod is scaled away',
  [reserve.annotation]: 'no CPU and memory is kept for its pod',
};

/** A claim works with an invalid policy until the policy matters, which is too late to notice. */
export function policyReason({ metadata: { name, namespace, annotations } }: Claim): Finding | undefined {
  const [invalid] = invalidPolicies(annotations);
  if (!invalid) return undefined;
  const { annotation, word, policies } = invalid;
  const is = `${annotation} is ${JSON.stringify(word)}`;
  const choice = `one of ${policies.join(', ')}`;
  return {
    code: 'InvalidPolicy',
    verb: 'has an invalid policy',
    cause: `${is}, so ${effects[annotation]}`,
    advice: `use ${choice}`,
    evidence: [`claim ${name}: ${is}`],
    remedy: [`kubectl annotate --overwrite pvc ${name} -n ${namespace} ${annotation}=WORD # ${choice}`],
  };
}
