import { join } from 'node:path';
import type { Binaries, Sidecar } from './binaries.ts';
import { writeProgramImage } from './program-image.ts';

/** The sidecars of the controller's pod. */
export const sidecarImages = {
  'csi-provisioner': 'moorage.local/csi-provisioner:1',
  'csi-resizer': 'moorage.local/csi-resizer:1',
  'csi-snapshotter': 'moorage.local/csi-snapshotter:1',
} as const satisfies Partial<Record<Sidecar, string>>;

/** Writes an archive of each image into a directory, and returns their paths. */
export async function writeSidecarImages(dir: string, programs: Binaries['sidecars']): Promise<string[]> {
  const archives: string[] = [];
  for (const [sidecar, image] of Object.entries(sidecarImages)) {
    const archive = join(dir, `${sidecar}.tar`);
    await writeProgramImage(image, programs[sidecar as Sidecar], archive);
    archives.push(archive);
  }
  return archives;
}
