import { InvalidInput, MoorageError } from '../../base/errors.ts';

export interface Page<T> {
  readonly items: readonly T[];
  /** Empty on the last page. */
  readonly nextToken: string;
}

const tokenPrefix = 'after:';

/**
 * One page of a list, in order of the ids. The token names the last id that was told, not a position: whatever comes and
 * goes between two pages, nothing is told twice, nothing that stays is left out, and any replica can go on.
 */
export function pageOf<T extends { readonly id: string }>(
  all: readonly T[],
  { maxEntries, startingToken }: { readonly maxEntries: number; readonly startingToken: string },
): Page<T> {
  if (maxEntries < 0) throw new InvalidInput('max_entries is negative; leave it out for all entries');
  const after = startingToken === '' ? '' : idIn(startingToken);
  const rest = all.filter(({ id }) => id > after).sort((a, b) => (a.id < b.id ? -1 : 1));
  const items = maxEntries === 0 ? rest : rest.slice(0, maxEntries);
  const last = items.at(-1);
  return { items, nextToken: last && items.length < rest.length ? `${tokenPrefix}${last.id}` : '' };
}

function idIn(token: string): string {
  if (!token.startsWith(tokenPrefix)) throw new UnknownToken(token);
  return token.slice(tokenPrefix.length);
}

/** CSI's code for it: the caller has to begin anew. */
export class UnknownToken extends MoorageError {
  readonly code = 'Aborted';

  constructor(token: string) {
    super(`starting_token ${JSON.stringify(token)} is none that this driver gave; list again without a token`);
  }
}
