import { readFile } from 'node:fs/promises';
import { arch } from 'node:os';
import { basename } from 'node:path';
import { layerOf, writeImage } from '../../scripts/image/oci.ts';
import type { ClusterNode } from './cluster-node.ts';

const importTimeoutMs = 300_000;

/** Writes an image with one static program and nothing else, like the sidecars' published images. */
export async function writeProgramImage(name: string, program: string, archive: string): Promise<void> {
  const path = basename(program);
  const content = await readFile(program);
  const layer = await layerOf(path, [{ path, kind: 'file', content, mode: 0o755 }], 0);
  await writeImage(
    {
      name,
      architecture: arch() === 'x64' ? 'amd64' : arch(),
      layers: [layer],
      entrypoint: [`/${path}`],
      environment: [],
      labels: {},
      secondsSinceEpoch: 0,
    },
    archive,
  );
}

/** Imports images into a node's store, as if it had pulled them. */
export async function importImages(node: ClusterNode, archives: readonly string[]): Promise<void> {
  for (const archive of archives) {
    await node.shell(`ctr --namespace k8s.io images import ${archive}`, { timeoutMs: importTimeoutMs });
  }
}
