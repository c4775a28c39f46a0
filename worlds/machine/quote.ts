/** Quotes a word for a POSIX shell. */
export function quote(word: string): string {
  return `'${word.replaceAll("'", `'\\''`)}'`;
}

/** Lines of NAME='value' for a shell to source. */
export function assignments(variables: Readonly<Record<string, string>>): string {
  return Object.entries(variables)
    .map(([name, value]) => `${name}=${quote(value)}\n`)
    .join('');
}
