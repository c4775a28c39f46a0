import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { buildBase, buildMoorageLayer, imageName, imageOf } from '../../scripts/image/build-image.ts';
import { type Layer, layerOf, writeImage } from '../../scripts/image/oci.ts';
import { cached, keyOf } from '../host/cache.ts';
import { stage } from '../host/progress.ts';

const home = join(import.meta.dirname, '..', '..');

/** The layers of Moorage's image below Moorage itself, with the Debian packages of the first call. */
export async function ensureBaseLayers(): Promise<Layer[]> {
  const sources = ['contents.ts', 'debian.ts', 'debian-files.ts', 'elf.ts', 'tar.ts'];
  const key = await keyOf(
    sources.map((name) => join(home, 'scripts', 'image', name)),
    [process.version],
  );
  const dir = await cached(`image-base-${key}`, (draft) =>
    stage('Preparing the image (once)', async (say) => {
      const { layers } = await buildBase(say, 'fetched before');
      await writeFile(
        join(draft, 'layers.json'),
        JSON.stringify(layers.map(({ title, diffId }) => ({ title, diffId }))),
      );
      for (const [index, { content }] of layers.entries()) await writeFile(join(draft, String(index)), content);
    }),
  );
  const layers = JSON.parse(await readFile(join(dir, 'layers.json'), 'utf8')) as Omit<Layer, 'content'>[];
  return Promise.all(
    layers.map(async (layer, index) => ({ ...layer, content: await readFile(join(dir, String(index))) })),
  );
}

/** Gives nodes the large layers before the image itself. */
export async function writeBaseImage(layers: readonly Layer[], archive: string): Promise<void> {
  await writeImage({ ...imageOf(layers), name: 'moorage.local/base:1' }, archive);
}

/** The image of this checkout, as an archive for nodes. */
export async function writeMoorageImage(archive: string): Promise<void> {
  await writeLayers(imageName, [await buildMoorageLayer()], archive);
}

/** Another build, which differs in its first log message and so in its digest; returns its tag. */
export async function writeNextImage(archive: string): Promise<string> {
  const tag = 'next';
  const moorage = await buildMoorageLayer(); // before it is read, because it names the files of this build
  const bundle = await readFile(join(home, 'dist', 'moorage.mjs'), 'utf8');
  const content = Buffer.from(`process.stderr.write('{"msg":"another build"}\\n');\n${bundle}`);
  const another = await layerOf(tag, [{ path: 'usr/lib/moorage/moorage.mjs', kind: 'file', content, mode: 0o644 }], 0);
  await writeLayers(imageName.replace(/[^:]*$/, tag), [moorage, another], archive);
  return tag;
}

async function writeLayers(name: string, layers: readonly Layer[], archive: string): Promise<void> {
  const base = await ensureBaseLayers();
  await writeImage({ ...imageOf([...base, ...layers]), name, layersLeftOut: base.length }, archive);
}
