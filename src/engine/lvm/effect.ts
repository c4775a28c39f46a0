/** What a command does to a volume group: by how much LVM counts up its metadata, and how memory follows. */
export interface Effect {
  readonly steps: number;
  readonly apply: () => void;
}

/** For commands whose effect only LVM can tell: what mirrors and snapshots take, say. */
export const askLvm = 'ask LVM';
