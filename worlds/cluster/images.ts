import { createHash } from 'node:crypto';
import { copyFile, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execute } from '../host/processes.ts';

export const busyboxImage = 'moorage.local/busybox:1';
export const pauseImage = 'moorage.local/pause:1';

const ociManifest = 'application/vnd.oci.image.manifest.v1+json';
const ociConfig = 'application/vnd.oci.image.config.v1+json';
const ociLayer = 'application/vnd.oci.image.layer.v1.tar';

/**
 * Writes an OCI archive with the two images that every test cluster needs, so that no registry is needed. Both contain only
 * the host's static busybox; one provides a shell, the other keeps a pod's namespaces alive.
 */
export async function writeImages(busybox: string, archive: string): Promise<void> {
  const work = await mkdtemp(join(tmpdir(), 'moorage-images-'));
  try {
    const layer = await writeLayer(busybox, join(work, 'root'));
    const layout = join(work, 'layout');
    const blobs = join(layout, 'blobs', 'sha256');
    await mkdir(blobs, { recursive: true });
    const blob = async (mediaType: string, content: Buffer) => {
      const hash = createHash('sha256').update(content).digest('hex');
      await writeFile(join(blobs, hash), content);
      return { mediaType, digest: `sha256:${hash}`, size: content.length };
    };
    const layerBlob = await blob(ociLayer, layer);
    const image = async (name: string, command: readonly string[]) => {
      const config = await blob(
        ociConfig,
        json({
          architecture: 'amd64',
          os: 'linux',
          config: { Env: ['PATH=/bin'], Cmd: command, WorkingDir: '/' },
          rootfs: { type: 'layers', diff_ids: [layerBlob.digest] },
        }),
      );
      const manifest = json({ schemaVersion: 2, mediaType: ociManifest, config, layers: [layerBlob] });
      return { ...(await blob(ociManifest, manifest)), annotations: { 'io.containerd.image.name': name } };
    };
    const manifests = [
      await image(busyboxImage, ['/bin/sh']),
      await image(pauseImage, ['/bin/sleep', String(2 ** 31 - 1)]),
    ];
    await writeFile(join(layout, 'oci-layout'), json({ imageLayoutVersion: '1.0.0' }));
    await writeFile(join(layout, 'index.json'), json({ schemaVersion: 2, manifests }));
    await execute('tar', ['-C', layout, '-cf', archive, '.']);
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

const json = (value: unknown) => Buffer.from(JSON.stringify(value));

async function writeLayer(busybox: string, root: string): Promise<Buffer> {
  for (const dir of ['bin', 'etc', 'tmp', 'proc', 'sys', 'dev', 'root', 'run', 'data']) {
    await mkdir(join(root, dir), { recursive: true });
  }
  await copyFile(busybox, join(root, 'bin', 'busybox'));
  const { stdout } = await execute(busybox, ['--list']);
  for (const applet of stdout.trim().split('\n')) {
    if (applet !== 'busybox') await symlink('busybox', join(root, 'bin', applet));
  }
  await writeFile(join(root, 'etc', 'passwd'), 'root:x:0:0:root:/root:/bin/sh\n');
  await writeFile(join(root, 'etc', 'group'), 'root:x:0:\n');
  const archive = `${root}.tar`;
  const same = ['--sort=name', '--mtime=@0', '--owner=0', '--group=0', '--numeric-owner'];
  await execute('tar', [...same, '-C', root, '-cf', archive, '.']);
  return readFile(archive);
}
