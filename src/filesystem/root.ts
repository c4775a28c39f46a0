import { chmod, chown, opendir, stat } from 'node:fs/promises';

export interface Owner {
  readonly uid: number;
  readonly gid: number;
}

/** The root directory as every mkfs leaves it. */
export const untouchedRoot = { mode: 0o755, owner: { uid: 0, gid: 0 } } as const;

/**
 * Sets mode and owner of the root directory of a new filesystem. Once it was used or changed, they belong to the user:
 * only what mkfs, or an interrupted call of this function, left is changed.
 */
export async function handOverRoot(root: string, mode: number, owner: Owner): Promise<void> {
  const found = await stat(root);
  const isMode = (wanted: number) => (found.mode & 0o7777) === wanted;
  const isOwner = ({ uid, gid }: Owner) => found.uid === uid && found.gid === gid;
  if (isMode(mode) && isOwner(owner)) return;
  if (!isMode(mode) && !isMode(untouchedRoot.mode)) return;
  if (!isOwner(owner) && !isOwner(untouchedRoot.owner)) return;
  for await (const { name } of await opendir(root)) if (name !== 'lost+found') return;
  await chown(root, owner.uid, owner.gid);
  await chmod(root, mode); // last, as chown may clear the set-group-ID bit
}
