/** Rounded up to whole extents, and to the same number on each stripe. */
export function extentsFor(sizeBytes: bigint, extentBytes: bigint, stripes = 1): bigint {
  const row = BigInt(Math.max(1, stripes));
  return ceilDivide(ceilDivide(sizeBytes, extentBytes), row) * row;
}

function ceilDivide(dividend: bigint, divisor: bigint): bigint {
  return (dividend + divisor - 1n) / divisor;
}

/** LVM's default: each changed chunk of 4 KiB takes 4 KiB and 16 bytes of metadata, and the header one more chunk. */
export function snapshotExtents(originBytes: bigint, extentBytes: bigint): bigint {
  const chunkBytes = 4096n;
  const chunks = ceilDivide(originBytes, chunkBytes);
  const perArea = chunkBytes / 16n;
  const areas = chunks / perArea + 1n;
  return extentsFor((1n + areas + chunks) * chunkBytes, extentBytes);
}

/** The mirrors and parity of a volume. */
export interface Redundancy {
  /** Number of images; all take the same number of extents. */
  readonly images: bigint;
  /** How many images of data they hold together; the rest are mirrors and parity. */
  readonly dataImages: bigint;
}

export const noRedundancy: Redundancy = { images: 1n, dataImages: 1n };

/** LVM keeps its own metadata for each image. */
const metadataExtents = 1n;

/** The largest volume that fits into the free extents, if those are on enough disks. */
export function usableExtents({ images, dataImages }: Redundancy, freeExtents: bigint): bigint {
  if (images === dataImages) return freeExtents;
  const perImage = freeExtents / images - metadataExtents;
  return perImage > 0n ? perImage * dataImages : 0n;
}

/**
 * The redundancy that these lvcreate options create; undefined if only LVM knows. Without --stripes LVM uses as many as
 * assumed here, or more if lvm.conf says so, which wastes less.
 */
export function redundancyOf(options: readonly string[]): Redundancy | undefined {
  const found = wordsOf(options);
  if (!found) return undefined;
  const { stripes } = found;
  const mirrors = found.mirrors ?? 1n;
  const type = found.type ?? (found.mirrors ? (stripes && stripes > 1n ? 'raid10' : 'raid1') : 'linear');
  if (/^(linear|striped|raid0|raid0_meta)$/.test(type)) return noRedundancy;
  if (/^(raid1|mirror)$/.test(type)) return { images: mirrors + 1n, dataImages: 1n };
  if (/^raid10(_|$)/.test(type)) return withImages(stripes ?? 2n, (data) => data * (mirrors + 1n));
  if (/^raid[45](_|$)/.test(type)) return withImages(stripes ?? 2n, (data) => data + 1n);
  if (/^raid6(_|$)/.test(type)) return withImages(stripes ?? 3n, (data) => data + 2n);
  return undefined;
}

function withImages(dataImages: bigint, images: (dataImages: bigint) => bigint): Redundancy | undefined {
  return dataImages > 0n ? { images: images(dataImages), dataImages } : undefined;
}

interface RedundancyWords {
  type?: string;
  mirrors?: bigint;
  stripes?: bigint;
}

const meaning: Readonly<Record<string, keyof RedundancyWords>> = {
  ...{ '--type': 'type', '--mirrors': 'mirrors', '-m': 'mirrors', '--stripes': 'stripes', '-i': 'stripes' },
};
/** Options that create a type not supported here. */
const others = /^(--(thin|thinpool|virtualsize|snapshot|cache|cachepool|cachevol|vdo|vdopool|raidintegrity)|-[THVs])$/;

/** Undefined if an option may affect it and is not understood: LVM also accepts abbreviated long options. */
function wordsOf(options: readonly string[]): RedundancyWords | undefined {
  const found: RedundancyWords = {};
  for (const [index, option] of options.entries()) {
    const [, name = '', inline] = /^(--[a-z][a-z-]*|-[a-zA-Z])(?:=?(.+))?$/.exec(option) ?? [];
    if (name === '') continue; // a value, or a disk
    const known = meaning[name];
    if (!known) {
      const isShortForm = Object.keys(meaning).some((word) => name.startsWith('--') && word.startsWith(name));
      const hidesAnother = !name.startsWith('--') && /[miTHVs]/.test(inline ?? '');
      if (isShortForm || hidesAnother || others.test(name)) return undefined;
      continue;
    }
    const value = inline ?? options[index + 1] ?? '';
    if (known === 'type') found.type = value;
    else if (/^\d{1,3}$/.test(value)) found[known] = BigInt(value);
    else return undefined;
  }
  return found;
}
