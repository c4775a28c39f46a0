import { leave, tombstone } from './names.ts';
import type { KubeObject } from './object.ts';

export type TombstoneWord = (typeof tombstone.words)[number];

/** What the annotations of a claim order. */
export type Tombstone =
  | { readonly kind: 'order'; readonly word: TombstoneWord; readonly annotation: string }
  | { readonly kind: 'invalid'; readonly message: string };

/** Undefined for most claims. */
export function tombstoneOf({ metadata }: KubeObject): Tombstone | undefined {
  const { annotations = {} } = metadata ?? {};
  const [first, second] = tombstone.annotations.flatMap((annotation) => {
    const word = annotations[annotation];
    return word === undefined ? [] : [{ annotation, word }];
  });
  if (!first) return undefined;
  const wrong = [first, ...(second ? [second] : [])].find(({ word }) => !isWord(word));
  if (wrong) {
    const message = `${wrong.annotation} is ${JSON.stringify(wrong.word)}; use ${tombstone.words.join(' or ')}`;
    return { kind: 'invalid', message };
  }
  if (second && second.word !== first.word) {
    const message = `${first.annotation} is ${first.word}, but ${second.annotation} is ${second.word}; remove one of them`;
    return { kind: 'invalid', message };
  }
  return isWord(first.word) ? { kind: 'order', word: first.word, annotation: first.annotation } : undefined;
}

/** Whether there is an order, or what is left of one. */
export function isTombstoned(claim: KubeObject): boolean {
  return tombstoneOf(claim) !== undefined || hasLeftovers(claim);
}

/** Whether Moorage's own records of an order are there. Without the order, they must not count for a later one. */
export function hasLeftovers({ metadata }: KubeObject): boolean {
  const { annotations = {} } = metadata ?? {};
  return leave.request in annotations || tombstone.move in annotations;
}

function isWord(word: string): word is TombstoneWord {
  return tombstone.words.some((each) => each === word);
}

/** Of merge patches: the annotations of an order, and what is left of one, away. */
export const withoutTombstone = without(...tombstone.annotations, tombstone.confirm, tombstone.move);
export const withoutLeftovers = without(tombstone.move, leave.request, leave.acknowledgement, leave.message);

function without(...names: readonly string[]): Readonly<Record<string, null>> {
  return Object.fromEntries(names.map((name) => [name, null]));
}
