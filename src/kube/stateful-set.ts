import type { StatefulSet, Stored } from './resource.ts';

/** What decides which claims a StatefulSet creates. */
export interface ClaimingSet {
  readonly namespace: string;
  readonly name: string;
  readonly isDeleting: boolean;
  /** The names of its claim templates. */
  readonly templates: readonly string[];
  /** Of its first pod. */
  readonly start: number;
  readonly replicas: number;
}

/** Undefined for one that creates no claims. */
export function claimingSet({ metadata, spec }: Stored<StatefulSet>): ClaimingSet | undefined {
  const templates = (spec?.volumeClaimTemplates ?? []).flatMap((template) => template.metadata?.name ?? []);
  if (!spec || templates.length === 0) return undefined;
  const { namespace = '', name, deletionTimestamp } = metadata;
  const isDeleting = deletionTimestamp !== undefined;
  return { namespace, name, isDeleting, templates, start: spec.ordinals?.start ?? 0, replicas: spec.replicas ?? 1 };
}

/** The ordinal of the pod that a claim of this name belongs to; undefined if it is not a claim of the set. */
export function ordinalOf({ name, templates }: ClaimingSet, claim: string): number | undefined {
  const parts = claimParts(name, claim);
  return parts && templates.includes(parts.template) ? parts.ordinal : undefined;
}

/** What the name of a claim consists of, if a StatefulSet of this name has created it. */
export function claimParts(
  set: string,
  claim: string,
): { readonly template: string; readonly ordinal: number } | undefined {
  const [, prefix = '', ordinal] = /^(.+)-(0|[1-9]\d*)$/.exec(claim) ?? [];
  if (ordinal === undefined || !prefix.endsWith(`-${set}`)) return undefined;
  return { template: prefix.slice(0, -set.length - 1), ordinal: Number(ordinal) };
}

/** Whether the set has a pod of this ordinal, or will have one. */
export function covers({ start, replicas }: Pick<ClaimingSet, 'start' | 'replicas'>, ordinal: number): boolean {
  return ordinal >= start && ordinal < start + replicas;
}
