/** How a command changes a volume group: the increments of its sequence number, and the update of memory. */
export interface Effect {
  readonly steps: number;
  readonly apply: () => void;
}

/** For commands whose effect only LVM knows, such as the space that mirrors and snapshots take. */
export const askLvm = 'ask LVM';
