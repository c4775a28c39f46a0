export const sideNames = ['exec', 'topolvm', 'moorage'] as const;
export type SideName = (typeof sideNames)[number];

/** Where volumes are created: the kind of volume, and the number of other volumes. */
export interface Place {
  readonly kind: 'thick' | 'thin';
  readonly others: 0 | 200;
}

export const places: readonly Place[] = [
  { kind: 'thick', others: 0 },
  { kind: 'thin', others: 0 },
  { kind: 'thick', others: 200 },
  { kind: 'thin', others: 200 },
];

export const thinPool = 'pool';
export const crowdedGroup = 'crowded';

/** Its name in the results, and the name of its device class. */
export function placeName({ kind, others }: Place): string {
  return `${kind}${others}`;
}

/**
 * Each side has its own empty groups, so that a daemon that keeps its thin pool active does not help the others. The crowded
 * group is shared: three of them would have three times the devices, and LVM scans every device.
 */
export function volumeGroupOf(side: SideName, { others }: Place): string {
  return others === 0 ? side : crowdedGroup;
}

/** One side of the comparison. All sides do the same work in their own way. */
export interface Side {
  readonly name: SideName;
  create(place: Place, id: string): Promise<unknown>;
  /** To twice its size. */
  grow(place: Place, id: string): Promise<unknown>;
  remove(place: Place, id: string): Promise<unknown>;
  list(place: Place): Promise<unknown>;
  freeBytes(place: Place): Promise<unknown>;

  /** Starts or ends its turn; between turns it uses no CPU time. */
  resume(): void;
  pause(): Promise<void>;
}

export const volumeBytes = 8n * 1024n ** 2n;
export const grownBytes = 2n * volumeBytes;
