import { InvalidInput } from '../../base/errors.ts';
import type { ErasePolicy } from '../config/device-classes.ts';

const defaultPasses = 3;

/** The policy with this name, and with the default number of passes if it has any. */
export function policyNamed(kind: ErasePolicy['kind']): ErasePolicy {
  return kind === 'shred' ? { kind, passes: defaultPasses } : { kind };
}

/** In tags and requests: `zero`, or `shred:3`. */
export function policyText(policy: ErasePolicy): string {
  return policy.kind === 'shred' ? `shred:${policy.passes}` : policy.kind;
}

/** Also accepts `shred` alone. Undefined for any other text. */
export function parsePolicy(text: string): ErasePolicy | undefined {
  if (text === 'none' || text === 'discard' || text === 'zero' || text === 'shred') return policyNamed(text);
  const passes = /^shred:(\d{1,3})$/.exec(text)?.[1];
  return passes === undefined ? undefined : { kind: 'shred', passes: Number(passes) };
}

export function overwritesIn({ kind }: ErasePolicy): boolean {
  return kind === 'zero' || kind === 'shred';
}

export function mustDestroyData({ kind }: ErasePolicy): void {
  if (kind === 'none')
    throw new InvalidInput('a volume cannot be emptied with policy none; use zero, shred or discard');
}
