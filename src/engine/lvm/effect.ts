/**
 * The effect of a command on a volume group: by how much LVM increments its sequence number, and how to update memory.
 */
export interface Effect {
  readonly steps: number;
  readonly apply: () => void;
}

/** For commands whose effect only LVM knows, such as the space that mirrors and snapshots take. */
export const askLvm = 'ask LVM';
