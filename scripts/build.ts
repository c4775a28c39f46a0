// npm run build: the one bundle that ships, with its start script.
import { chmod, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { build } from 'esbuild';

const home = join(import.meta.dirname, '..');

const [, flags] = /^flags='(.*)'$/m.exec(await readFile(join(home, 'bin', 'moorage'), 'utf8')) ?? [];
if (!flags) throw new Error("bin/moorage has no line with Node's flags any more; read them from where they are now");

/** As bin/moorage, for a directory that holds the bundle and has Node on its PATH. */
const startScript = `#!/bin/sh
name=$(basename -- "$0")
[ "$name" = moorage ] || set -- "$name" "$@"
exec node ${flags} "$(dirname -- "$(readlink -f -- "$0")")/moorage.mjs" "$@"
`;

await build({
  entryPoints: [join(home, 'src', 'main.ts')],
  outfile: join(home, 'dist', 'moorage.mjs'),
  bundle: true,
  platform: 'node',
  target: 'node26',
  format: 'esm',
  minifySyntax: true,
  sourcemap: 'linked',
  legalComments: 'eof',
  // Some dependencies are CommonJS and ask for Node's own modules with require().
  banner: { js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);" },
  logLevel: 'warning',
});
await writeFile(join(home, 'dist', 'moorage'), startScript);
await chmod(join(home, 'dist', 'moorage'), 0o755);
