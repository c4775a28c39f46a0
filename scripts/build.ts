// npm run build: the bundle to ship, with its start script and the licences of the bundled packages.
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { type BuildOptions, build, type Plugin } from 'esbuild';
import { buildPage } from './page.ts';

const home = join(import.meta.dirname, '..');
const dist = join(home, 'dist');

const launcher = await readFile(join(home, 'bin', 'moorage'), 'utf8');
const [, flags] = /^flags='(.*)'$/m.exec(launcher) ?? [];
const exports = launcher.match(/^export .*$/gm)?.join('\n');
if (!flags || !exports) throw new Error("no line with Node's flags found in bin/moorage; update this script");

/** Like bin/moorage, for a directory that has the bundle, with Node on the PATH. */
const startScript = `#!/bin/sh
name=\${0##*/}
[ "$name" = moorage ] || set -- "$name" "$@"
self=$0
[ -h "$self" ] && self=$(readlink -f -- "$self")
${exports}
exec node ${flags} "\${self%/*}/moorage.mjs" "$@"
`;

/** Parts of prom-client that we do not use, and that load more of Node (`v8`, `perf_hooks`). */
const unused: Plugin = {
  name: 'unused',
  setup(build) {
    const filter = /\/prom-client\/lib\/(cluster|pushgateway|defaultMetrics)\.js$/;
    build.onLoad({ filter }, () => ({ contents: 'module.exports = {};' }));
  },
};

const options = {
  absWorkingDir: home,
  metafile: true,
  write: false,
  bundle: true,
  platform: 'node',
  alias: { yaml: join(home, 'node_modules', 'yaml', 'browser', 'index.js') }, // ES modules; its Node entry is CommonJS
  minifySyntax: true,
  minifyWhitespace: true, // less to read means a faster start
  legalComments: 'eof',
  logLevel: 'warning',
} as const satisfies BuildOptions;

// Split into chunks, so that each process loads only what it needs: that saves memory and start time.
const { outputFiles, metafile } = await build({
  ...options,
  entryPoints: { moorage: join(home, 'src', 'main.ts') },
  outdir: dist,
  outExtension: { '.js': '.mjs' },
  splitting: true,
  chunkNames: 'parts/[name]-[hash]',
  target: 'node26',
  format: 'esm',
  // Some dependencies are CommonJS and load Node's modules with require().
  banner: { js: "import { createRequire } from 'node:module';const require = createRequire(import.meta.url);" },
  external: ['@grpc/proto-loader'], // grpc-js loads it for channelz and ORCA, which we do not serve
  plugins: [unused],
  sourcemap: 'linked',
});
const page = await buildPage();
/** The text of the page in place of the code that reads its file. */
const withPage: Plugin = {
  name: 'with-page',
  setup(build) {
    const contents = `export const readPage = async () => ${JSON.stringify(page.html)};`;
    build.onLoad({ filter: /\/plugin\/page\/page-file\.ts$/ }, () => ({ contents }));
  },
};

// One file for workstations, which have their own Node. CommonJS, because it is installed without an extension.
const plugin = await build({
  ...options,
  entryPoints: [join(home, 'src', 'plugin', 'main.ts')],
  outfile: join(dist, 'kubectl-moorage.cjs'),
  target: 'node20',
  format: 'cjs',
  banner: { js: '#!/usr/bin/env node' },
  plugins: [withPage],
});
/** Packages whose licence is only in file headers; one has the terms of our own LICENSE, Apache 2.0. */
const licensedInSources: Readonly<Record<string, readonly string[]>> = {
  '@bufbuild/protobuf': ['dist/esm/index.js', 'dist/esm/wire/varint.js'],
};

// Chunk names contain a hash, and the entry is replaced last: a process that starts meanwhile loads either the complete
// old bundle or the complete new one.
const partsDir = join(dist, 'parts');
await mkdir(partsDir, { recursive: true });
const parts = outputFiles.filter(({ path }) => dirname(path) === partsDir);
const entry = outputFiles.filter(({ path }) => dirname(path) === dist);
for (const { path, contents } of [...parts, ...entry]) await replace(path, contents, 0o644);
await replace(join(dist, 'moorage'), startScript, 0o755);
for (const { path, contents } of plugin.outputFiles) await replace(path, contents, 0o755);
await replace(
  join(dist, 'kubectl_complete-moorage'),
  await readFile(join(home, 'bin', 'kubectl_complete-moorage')),
  0o755,
);
await keepOnly(partsDir, new Set(parts.map(({ path }) => basename(path))));

const licensesDir = join(dist, 'licenses');
await mkdir(licensesDir, { recursive: true });
const licenses = new Map([...bundledPackages()].map((name) => [name.replace('/', '+'), name]));
for (const [file, name] of licenses) await replace(join(licensesDir, file), await licenseOf(name), 0o644);
await keepOnly(licensesDir, new Set(licenses.keys()));

/** The packages that are part of the bundle. */
function bundledPackages(): Set<string> {
  const outputs = [...Object.values(metafile.outputs), ...Object.values(plugin.metafile.outputs)];
  const taken = outputs.flatMap(({ inputs }) =>
    Object.entries(inputs).filter(([, { bytesInOutput }]) => bytesInOutput > 0),
  );
  const names = taken.flatMap(([path]) => /.*node_modules\/((@[^/]+\/)?[^/]+)/.exec(path)?.[1] ?? []);
  return new Set([...names, ...page.packages]);
}

async function licenseOf(name: string): Promise<string> {
  const dir = join(home, 'node_modules', name);
  const file = (await readdir(dir)).find((file) => /^licen[cs]e(\.|$)/i.test(file));
  if (file) return readFile(join(dir, file), 'utf8');
  const sources = licensedInSources[name];
  if (!sources) throw new Error(`${name} has no licence file; check its licence and add it to this script`);
  const notices = sources.map(async (source) => /^(\/\/.*\n)+/.exec(await readFile(join(dir, source), 'utf8'))?.[0]);
  return [...(await Promise.all(notices)), await readFile(join(home, 'LICENSE'), 'utf8')].join('\n');
}

async function keepOnly(dir: string, files: ReadonlySet<string>): Promise<void> {
  const outdated = new Set(await readdir(dir)).difference(files);
  for (const file of outdated) await rm(join(dir, file), { force: true });
}

async function replace(path: string, content: string | Uint8Array, mode: number): Promise<void> {
  const draft = join(dist, `.${basename(path)}.${process.pid}`);
  await writeFile(draft, content, { mode });
  await rename(draft, path);
}
