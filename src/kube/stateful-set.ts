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
  const prefix = templates.map((template) => `${template}-${name}-`).find((each) => claim.startsWith(each));
  const ordinal = prefix === undefined ? '' : claim.slice(prefix.length);
  return /^(0|[1-9]\d*)$/.test(ordinal) ? Number(ordinal) : undefined;
}

/** Whether the set has a pod of this ordinal, or will have one. */
export function covers({ start, replicas }: ClaimingSet, ordinal: number): boolean {
  return ordinal >= start && ordinal < start + replicas;
}
