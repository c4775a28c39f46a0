import { dirname } from 'node:path';

/** One entry of a tree, by its path from the root, such as `usr/bin/node`. Everything belongs to root. */
export type TreeEntry = { readonly path: string } & (
  | { readonly kind: 'file'; readonly content: Buffer; readonly mode: number }
  | { readonly kind: 'link'; readonly target: string }
  | { readonly kind: 'directory'; readonly mode: number }
);

const blockBytes = 512;
const directoryMode = 0o755;
const typeFlags = { file: '0', link: '2', directory: '5' } as const;

/**
 * A tar archive of a tree, independent of the build machine: entries are sorted, owners are root, and all times are the
 * given one. Missing parent directories are added.
 */
export function tar(entries: readonly TreeEntry[], secondsSinceEpoch: number): Buffer {
  const byPath = new Map<string, TreeEntry>();
  for (const entry of entries) {
    for (let path = dirname(entry.path); path !== '.'; path = dirname(path)) {
      if (!byPath.has(path)) byPath.set(path, { path, kind: 'directory', mode: directoryMode });
    }
    byPath.set(entry.path, entry);
  }
  const sorted = [...byPath.values()].sort((a, b) => (a.path < b.path ? -1 : 1));
  const blocks = sorted.flatMap((entry) => {
    const content = entry.kind === 'file' ? entry.content : Buffer.alloc(0);
    const padding = Buffer.alloc(-content.length & (blockBytes - 1));
    return [header(entry, content.length, secondsSinceEpoch), content, padding];
  });
  return Buffer.concat([...blocks, Buffer.alloc(2 * blockBytes)]);
}

/** POSIX ustar. */
function header(entry: TreeEntry, sizeBytes: number, seconds: number): Buffer {
  const block = Buffer.alloc(blockBytes);
  const text = (value: string, offset: number, limit: number) => {
    if (Buffer.byteLength(value) > limit)
      throw new Error(`'${value}' is too long for a tar archive: at most ${limit} bytes are possible`);
    block.write(value, offset);
  };
  const octal = (value: number, offset: number, width: number) =>
    text(value.toString(8).padStart(width - 1, '0'), offset, width - 1);

  text(entry.kind === 'directory' ? `${entry.path}/` : entry.path, 0, 100);
  octal(entry.kind === 'link' ? 0o777 : entry.mode, 100, 8);
  octal(0, 108, 8); // uid
  octal(0, 116, 8); // gid
  octal(sizeBytes, 124, 12);
  octal(seconds, 136, 12);
  text(typeFlags[entry.kind], 156, 1);
  if (entry.kind === 'link') text(entry.target, 157, 100);
  text('ustar', 257, 6);
  text('00', 263, 2);
  // The checksum counts its own field as spaces.
  block.fill(' ', 148, 156);
  const sum = block.reduce((total, byte) => total + byte, 0);
  block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148);
  return block;
}
