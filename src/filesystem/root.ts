import { chmod, chown, opendir, stat } from 'node:fs/promises';

export interface Owner {
  readonly uid: number;
  readonly gid: number;
}

/** How mkfs leaves the root directory of every kind of filesystem. */
export const untouchedRoot = { mode: 0o755, owner: { uid: 0, gid: 0 } } as const;

/**
 * Gives the root directory of a new filesystem to whoever shall use it. Once somebody has used or changed it, its mode
 * and owner are theirs: only what mkfs left, or an interrupted call of this, is changed.
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
  await chmod(root, mode); // last: a change of owner may take the set-group-ID bit away
}
