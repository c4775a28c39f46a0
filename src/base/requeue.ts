/** What a reconcile asks for when it has succeeded. A failure is thrown instead, and is retried with backoff. */
export type Requeue = { readonly kind: 'never' } | { readonly kind: 'after'; readonly delayMs: number };

export const Requeue = {
  /** Done until something changes. */
  never: { kind: 'never' },
  /** Look again later, for what no watch can tell: a time that has come. */
  after: (delayMs: number): Requeue => ({ kind: 'after', delayMs }),
} as const;
