import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { test } from 'node:test';

/**
 * The folders of src/, lowest first. A file may import from its own folder and from lower ones, and only tests import
 * fakes. Written by hand, because the tools for this use the old API of the TypeScript compiler.
 */
const layers = [
  ['base'],
  ['api'],
  ['engine', 'kube', 'rpc', 'http'],
  ['filesystem'],
  ['csi', 'local-pv', 'metrics', 'moves'],
  ['explain'],
  ['volumes', 'webhook'],
  ['lvmd'],
  ['node', 'controller', 'scheduler', 'standalone', 'cli', 'plugin'],
];
const levelOf = new Map(layers.flatMap((folders, level) => folders.map((folder) => [folder, level])));

interface Import {
  readonly from: string;
  readonly to: string;
}

function importsOf(files: readonly string[]): readonly Import[] {
  return files.flatMap((from) =>
    [...readFileSync(from, 'utf8').matchAll(/(?:from|import\() ?'(\.[^']+)'/g)].map(([, specifier = '']) => ({
      from,
      to: normalize(join(dirname(from), specifier)),
    })),
  );
}

function folderOf(path: string): string | undefined {
  return /^src\/([^/]+)\//.exec(path)?.[1];
}

/** Undefined if the import is allowed. */
function violation({ from, to }: Import): string | undefined {
  if (/\/testing\//.test(to)) return `${from} imports the fake ${to}`;
  const [own, other] = [folderOf(from), folderOf(to)];
  if (own === undefined || other === undefined || own === other) return undefined;
  const [level, below] = [levelOf.get(own), levelOf.get(other)];
  if (level === undefined || below === undefined) return `${from} or ${to} is in a folder without a layer`;
  return below < level ? undefined : `${from} imports ${to}, which is not below it`;
}

const isProduction = (file: string) => !/\.test\.ts$|\/testing\//.test(file);

test('imports in src/ point down, and production code imports no fakes', () => {
  const imports = importsOf(globSync('src/**/*.ts').filter(isProduction));
  assert.ok(imports.length > 500, 'no imports were found');
  assert.deepEqual(imports.map(violation).filter(Boolean), []);
});

test('an import that points up, sideways or to a fake is reported', () => {
  const found = [
    { from: 'src/engine/pool.ts', to: 'src/kube/client.ts' },
    { from: 'src/engine/pool.ts', to: 'src/filesystem/probe.ts' },
    { from: 'src/node/node-process.ts', to: 'src/controller/controller-process.ts' },
    { from: 'src/node/node-process.ts', to: 'src/engine/testing/in-memory-pool.ts' },
    { from: 'src/new/file.ts', to: 'src/base/log.ts' },
  ].map((each) => violation(each) !== undefined);
  assert.deepEqual(found, [true, true, true, true, true]);
});
