import { distance } from 'fastest-levenshtein';

/** The word that was probably meant; undefined if none is close. Case does not matter. */
export function mostSimilar(written: string, words: readonly string[]): string | undefined {
  const mistakes = (word: string) => distance(written.toLowerCase(), word.toLowerCase());
  const [nearest] = words.map((word) => ({ word, mistakes: mistakes(word) })).sort((a, b) => a.mistakes - b.mistakes);
  return nearest && nearest.mistakes <= Math.ceil(written.length / 4) ? nearest.word : undefined;
}
