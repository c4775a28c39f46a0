// The page of `kubectl moorage ui`: esbuild compiles web/, and everything ends up in one HTML file.
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { build } from 'esbuild';

const home = join(import.meta.dirname, '..');

export interface BuiltPage {
  readonly html: string;
  /** The packages that are in it. */
  readonly packages: ReadonlySet<string>;
}

/** Also writes dist/page.html, which the plugin reads when it is run from its sources. */
export async function buildPage(): Promise<BuiltPage> {
  const { outputFiles, metafile } = await build({
    absWorkingDir: home,
    entryPoints: [join(home, 'web', 'src', 'main.tsx')],
    outdir: join(home, 'dist'),
    tsconfig: join(home, 'web', 'tsconfig.json'),
    bundle: true,
    write: false,
    metafile: true,
    minify: true,
    format: 'esm',
    target: ['es2023', 'chrome123', 'firefox120', 'safari17.5'], // the first that know light-dark() in CSS
    legalComments: 'none', // the licences are beside the bundle
    logLevel: 'warning',
  });
  const [script = '', style = ''] = ['.js', '.css'].map(
    (end) => outputFiles.find(({ path }) => path.endsWith(end))?.text,
  );
  const source = await readFile(join(home, 'web', 'index.html'), 'utf8');
  const html = source
    .replace('<style></style>', () => `<style>${style}</style>`)
    // `</script` within it would end it.
    .replace(
      '<script type="module"></script>',
      () => `<script type="module">${script.replaceAll('</script', '<\\/script')}</script>`,
    );
  await mkdir(join(home, 'dist'), { recursive: true });
  const draft = join(home, 'dist', `.page.html.${process.pid}`);
  await writeFile(draft, html);
  await rename(draft, join(home, 'dist', 'page.html'));
  const inputs = Object.keys(metafile.inputs);
  const packages = inputs.flatMap((path) => /.*node_modules\/((@[^/]+\/)?[^/]+)/.exec(path)?.[1] ?? []);
  return { html, packages: new Set(packages) };
}
