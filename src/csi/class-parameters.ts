import { parameterPrefixes } from '../api/names.ts';
import { InvalidInput } from '../base/errors.ts';
import { mostSimilar } from '../base/similar.ts';

type Parameters = Readonly<Record<string, string>>;

/** If a mistyped parameter were ignored, the volume would silently differ from what was meant. */
export function refuseUnknownParameters(given: Parameters, known: readonly string[]): void {
  const problem = unknownParameter(given, known);
  if (problem !== undefined) throw new InvalidInput(problem);
}

/** The problem and its remedy; undefined if there is none. */
export function unknownParameter(given: Parameters, known: readonly string[]): string | undefined {
  const unknown = Object.keys(given).find((name) => isOurs(name) && !known.includes(name));
  return unknown === undefined ? undefined : unknownName(unknown, known);
}

export function isOurs(name: string): boolean {
  return parameterPrefixes.some((prefix) => name.startsWith(prefix));
}

export function unknownName(name: string, known: readonly string[]): string {
  const meant = meantName(name, known);
  const remedy = meant ? `did you mean ${meant}?` : known.length > 0 ? `use one of ${known.join(', ')}` : 'remove it';
  return `unknown name ${JSON.stringify(name)} in parameters; ${remedy}`;
}

/** Prefixes are often wrong or missing, so only what follows them is compared. */
export function meantName(name: string, known: readonly string[]): string | undefined {
  const last = (each: string) => each.slice(each.lastIndexOf('/') + 1);
  const meant = mostSimilar(last(name), known.map(last));
  return known.find((each) => last(each) === meant);
}
