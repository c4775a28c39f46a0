/** Columns as wide as their widest cell, two spaces apart. Empty columns are omitted. */
export function table(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const used = header.map((_, column) => rows.some((row) => row[column] !== ''));
  const lines = [header, ...rows].map((cells) => cells.filter((_, column) => used[column]));
  const widths = header
    .filter((_, column) => used[column])
    .map((_, column) => Math.max(...lines.map((cells) => cells[column]?.length ?? 0)));
  return lines
    .map((cells) =>
      cells
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}
