import { InvalidInput, MoorageError } from '../../base/errors.ts';

export interface Page<T> {
  readonly items: readonly T[];
  /** Empty on the last page. */
  readonly nextToken: string;
}

const tokenPrefix = 'after:';

/**
 * One page of a list, ordered by id. The token names the last listed id, not a position: if entries are added or removed
 * between two pages, no entry is listed twice, no remaining entry is skipped, and any replica can continue.
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

/** CSI's code for an invalid token: the caller must start again. */
export class UnknownToken extends MoorageError {
  readonly code = 'Aborted';

  constructor(token: string) {
    super(`invalid starting_token ${JSON.stringify(token)}: list again without a token`);
  }
}
