/** A word that a POSIX shell reads back as it is. */
export function quote(word: string): string {
  return `'${word.replaceAll("'", `'\\''`)}'`;
}

/** Lines of NAME='value', to be sourced by a shell. */
export function assignments(variables: Readonly<Record<string, string>>): string {
  return Object.entries(variables)
    .map(([name, value]) => `${name}=${quote(value)}\n`)
    .join('');
}
