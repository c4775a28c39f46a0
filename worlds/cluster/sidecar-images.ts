import { join } from 'node:path';
import { type Binaries, type Sidecar, sidecars } from './binaries.ts';
import { writeProgramImage } from './program-image.ts';

/** The sidecars of the controller's pod. The chart chooses their flags by the version in the tag. */
export const sidecarImages = {
  'csi-provisioner': imageOf('csi-provisioner'),
  'csi-resizer': imageOf('csi-resizer'),
  'csi-snapshotter': imageOf('csi-snapshotter'),
};

function imageOf(sidecar: Sidecar): string {
  return `moorage.local/${sidecar}:${sidecars[sidecar].version}`;
}

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
