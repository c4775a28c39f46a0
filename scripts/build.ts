// npm run build: the one bundle that ships, with its start script.
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { build } from 'esbuild';

const home = join(import.meta.dirname, '..');
const dist = join(home, 'dist');

const [, flags] = /^flags='(.*)'$/m.exec(await readFile(join(home, 'bin', 'moorage'), 'utf8')) ?? [];
if (!flags) throw new Error("bin/moorage has no line with Node's flags any more; read them from where they are now");

/** As bin/moorage, for a directory that holds the bundle and has Node on its PATH. */
const startScript = `#!/bin/sh
name=\${0##*/}
[ "$name" = moorage ] || set -- "$name" "$@"
self=$(readlink -f -- "$0")
export MALLOC_ARENA_MAX=1
exec node ${flags} "\${self%/*}/moorage.mjs" "$@"
`;

const { outputFiles } = await build({
  entryPoints: [join(home, 'src', 'main.ts')],
  outfile: join(dist, 'moorage.mjs'),
  write: false,
  bundle: true,
  platform: 'node',
  target: 'node26',
  format: 'esm',
  minifySyntax: true,
  minifyWhitespace: true, // the less there is to read, the sooner a process is up
  sourcemap: 'linked',
  legalComments: 'eof',
  // Some dependencies are CommonJS and ask for Node's own modules with require().
  banner: { js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);" },
  logLevel: 'warning',
});
await mkdir(dist, { recursive: true });
for (const { path, contents } of outputFiles) await replace(path, contents, 0o644);
await replace(join(dist, 'moorage'), startScript, 0o755);

/** At once: whoever reads it meanwhile has all of the old one or all of the new one. */
async function replace(path: string, content: string | Uint8Array, mode: number): Promise<void> {
  const draft = `${path}.${process.pid}`;
  await writeFile(draft, content, { mode });
  await rename(draft, path);
}
