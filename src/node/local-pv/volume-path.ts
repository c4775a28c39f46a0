import { lstat, mkdir, readlink, rmdir, symlink, unlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { syncDirectory } from '../../base/durable.ts';
import { MoorageError } from '../../base/errors.ts';

/** On a tmpfs, so that a boot leaves nothing here. */
export const mountRoot = '/run/moorage/local-pv';

/** Where the filesystem of a static volume is mounted. Pods reach it through the path of the PersistentVolume. */
export function mountPointOf(name: string): string {
  return join(mountRoot, name);
}

/**
 * Makes the path a link to the mount point, on which the filesystem must be mounted.
 *
 * The kubelet accepts any directory as a local volume, also the bare mount point of a volume that is not mounted. A pod
 * would then write to the root filesystem. A link to a mount point that does not exist makes the pod wait instead.
 */
export async function showAt(path: string, mountPoint: string): Promise<void> {
  const found = await contentOf(path);
  if (found.kind === 'link' && found.target === mountPoint) return;
  if (found.kind === 'link') throw new PathOccupied(path, `a link to ${found.target}`);
  if (found.kind === 'file') throw new PathOccupied(path, 'a file');
  await mkdir(dirname(path), { recursive: true });
  await removeBareDirectory(path);
  await symlink(mountPoint, path); // at once, and never over something else
  await syncDirectory(dirname(path)); // a boot without an agent needs it
}

/** Removes the link, so that no pod can start on the mount point. What others put at the path stays. */
export async function hideFrom(path: string, mountPoint: string): Promise<void> {
  const found = await contentOf(path);
  if (found.kind !== 'link' || found.target !== mountPoint) return;
  await unlink(path);
  await syncDirectory(dirname(path));
}

/** Removes an empty directory, as k8s-local-pv leaves it. The kernel refuses to remove one with data or a mount. */
export async function removeBareDirectory(path: string): Promise<void> {
  try {
    await rmdir(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOTEMPTY' || code === 'EEXIST') throw new DirectoryHasData(path);
    if (code === 'EBUSY') throw new OtherMountAtPath(path);
    if (code !== 'ENOENT') throw error;
  }
}

type Content = { readonly kind: 'nothing' | 'directory' | 'file' } | { readonly kind: 'link'; readonly target: string };

async function contentOf(path: string): Promise<Content> {
  try {
    const found = await lstat(path);
    if (found.isSymbolicLink()) return { kind: 'link', target: await readlink(path) };
    return { kind: found.isDirectory() ? 'directory' : 'file' };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return { kind: 'nothing' };
    throw error;
  }
}

export class DirectoryHasData extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(path: string) {
    super(
      `${path} is a directory with data on the node's own disk, so the volume is not shown there; ` +
        'inspect the data and move it away',
    );
  }
}

export class OtherMountAtPath extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(path: string) {
    super(`something else than the volume is mounted at ${path}; unmount it`);
  }
}

export class PathOccupied extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(path: string, found: string) {
    super(`${path} is ${found}, so the volume is not shown there; move it away`);
  }
}
