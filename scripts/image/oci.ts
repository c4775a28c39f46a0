import { createHash } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { constants, zstdCompress } from 'node:zlib';
import { cached } from '../../worlds/host/cache.ts';
import { type TreeEntry, tar } from './tar.ts';

const compress = promisify(zstdCompress);
/** Ten times faster than the best level, for a few per cent more bytes. */
const compressionLevel = 12;

const mediaTypes = {
  manifest: 'application/vnd.oci.image.manifest.v1+json',
  config: 'application/vnd.oci.image.config.v1+json',
  layer: 'application/vnd.oci.image.layer.v1.tar+zstd',
} as const;

export interface Layer {
  /** Its description in the history of the image. */
  readonly title: string;
  /** The digest of its uncompressed content. */
  readonly diffId: string;
  readonly content: Buffer;
}

/** Compression is slow, so an unchanged layer is not compressed again. */
export async function layerOf(title: string, entries: readonly TreeEntry[], secondsSinceEpoch: number): Promise<Layer> {
  const archive = tar(entries, secondsSinceEpoch);
  const diffId = digestOf(archive);
  const params = { [constants.ZSTD_c_compressionLevel]: compressionLevel };
  const name = `image-layer-${diffId.replace(':', '-')}-zstd-${compressionLevel}`;
  const dir = await cached(name, async (draft) => {
    await writeFile(join(draft, 'layer'), await compress(archive, { params }));
  });
  return { title, diffId, content: await readFile(join(dir, 'layer')) };
}

export interface Image {
  /** The reference to pull: repository and tag. */
  readonly name: string;
  readonly architecture: string;
  readonly layers: readonly Layer[];
  /** How many of the first layers are left out of the archive, because its reader already has them. */
  readonly layersLeftOut?: number;
  readonly entrypoint: readonly string[];
  readonly environment: readonly string[];
  readonly labels: Readonly<Record<string, string>>;
  readonly secondsSinceEpoch: number;
}

/**
 * Writes an image as an OCI layout in one tar archive, for `ctr images import`, `podman load` and `skopeo copy
 * oci-archive:`, and returns the digest of the image.
 */
export async function writeImage(image: Image, archive: string): Promise<string> {
  const created = new Date(image.secondsSinceEpoch * 1000).toISOString();
  const blobs = new Map<string, Buffer>();
  const describe = (mediaType: string, content: Buffer) => {
    return { mediaType, digest: digestOf(content), size: content.length };
  };
  const add = (mediaType: string, content: Buffer) => {
    const description = describe(mediaType, content);
    blobs.set(description.digest, content);
    return description;
  };
  const config = {
    created,
    architecture: image.architecture,
    os: 'linux',
    config: { Env: image.environment, Entrypoint: image.entrypoint, WorkingDir: '/', Labels: image.labels },
    rootfs: { type: 'layers', diff_ids: image.layers.map(({ diffId }) => diffId) },
    history: image.layers.map(({ title }) => ({ created, created_by: title })),
  };
  const manifest = {
    schemaVersion: 2,
    mediaType: mediaTypes.manifest,
    config: add(mediaTypes.config, json(config)),
    layers: image.layers.map(({ content }, index) =>
      (index < (image.layersLeftOut ?? 0) ? describe : add)(mediaTypes.layer, content),
    ),
    annotations: image.labels,
  };
  const described = {
    ...add(mediaTypes.manifest, json(manifest)),
    annotations: { 'io.containerd.image.name': image.name, 'org.opencontainers.image.ref.name': image.name },
  };
  const files: [string, Buffer][] = [
    ['oci-layout', json({ imageLayoutVersion: '1.0.0' })],
    ['index.json', json({ schemaVersion: 2, manifests: [described] })],
    ...[...blobs].map(([digest, content]): [string, Buffer] => [`blobs/${digest.replace(':', '/')}`, content]),
  ];
  const entries = files.map(([path, content]): TreeEntry => ({ path, kind: 'file', content, mode: 0o644 }));
  await writeFile(archive, tar(entries, image.secondsSinceEpoch));
  return described.digest;
}

function digestOf(content: Buffer): string {
  return `sha256:${createHash('sha256').update(content).digest('hex')}`;
}

function json(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value));
}
