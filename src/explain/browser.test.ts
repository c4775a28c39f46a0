import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';

/** Everything that the files import at run time, by path, with what they import from elsewhere. */
function importedBy(files: readonly string[]): { readonly files: ReadonlySet<string>; readonly modules: Set<string> } {
  const modules = new Set<string>();
  const seen = new Set<string>();
  const visit = (file: string): void => {
    if (seen.has(file)) return;
    seen.add(file);
    for (const [statement, specifier = ''] of readFileSync(file, 'utf8').matchAll(
      /^(?:import|export)[^;]*?from '([^']+)'/gm,
    )) {
      if (/^(?:import|export) type /.test(statement)) continue;
      if (specifier.startsWith('.')) visit(join(dirname(file), specifier));
      else modules.add(specifier);
    }
  };
  for (const file of files) visit(file);
  return { files: seen, modules };
}

test('a page in a browser can import all of this folder', () => {
  const sources = globSync(join(import.meta.dirname, '*.ts')).filter((file) => !file.endsWith('.test.ts'));
  const { files, modules } = importedBy(sources);
  assert.ok(
    [...files].some((file) => file.endsWith('/kube/node-selector.ts')),
    'imports were not followed',
  );
  assert.deepEqual([...modules], ['fastest-levenshtein']);
});
