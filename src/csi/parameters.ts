import { InvalidInput } from '../base/errors.ts';
import { parameterPrefixes } from '../names.ts';

/** A mistyped parameter would silently give another volume than the one that was meant. */
export function refuseUnknownParameters(given: Readonly<Record<string, string>>, known: readonly string[]): void {
  const unknown = Object.keys(given).find(
    (key) => parameterPrefixes.some((prefix) => key.startsWith(prefix)) && !known.includes(key),
  );
  if (unknown === undefined) return;
  const remedy = known.length > 0 ? `known are ${known.join(', ')}` : 'remove it';
  throw new InvalidInput(`parameters hold ${JSON.stringify(unknown)}, which is unknown; ${remedy}`);
}
