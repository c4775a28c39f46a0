export const sideNames = ['exec', 'topolvm', 'moorage'] as const;
export type SideName = (typeof sideNames)[number];

/** Where volumes are made: a kind of volume, among so many others. */
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

/** Its name in figures, and that of its device class. */
export function placeName({ kind, others }: Place): string {
  return `${kind}${others}`;
}

/**
 * Empty groups are one a side, so that a daemon which keeps its thin pool active does so for itself only. The crowded one
 * is shared: three of them would have three times the devices, and LVM looks at every device there is.
 */
export function volumeGroupOf(side: SideName, { others }: Place): string {
  return others === 0 ? side : crowdedGroup;
}

/** One of those who are compared. Each does the same, by its own means. */
export interface Side {
  readonly name: SideName;
  create(place: Place, id: string): Promise<unknown>;
  /** To twice its size. */
  grow(place: Place, id: string): Promise<unknown>;
  remove(place: Place, id: string): Promise<unknown>;
  list(place: Place): Promise<unknown>;
  freeBytes(place: Place): Promise<unknown>;

  /** Its turn has come, or is over; between turns it takes no time from the others. */
  resume(): void;
  pause(): Promise<void>;
}

export const volumeBytes = 8n * 1024n ** 2n;
export const grownBytes = 2n * volumeBytes;
