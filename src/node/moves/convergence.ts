/** One round of a copy. */
export interface CopiedRound {
  readonly sentBytes: number;
  readonly durationMs: number;
}

/** A pause that hardly anybody notices next to the restart of a pod. */
const shortMs = 3_000;
/** A round that is not clearly smaller than the one before: the pods write as fast as it is copied. */
const shrinking = 0.7;
/** More rounds cost more than they save. */
const mostRounds = 8;

/** Whether the pods can be stopped: another round while they run would not shorten the pause much. */
export function hasConverged(rounds: readonly CopiedRound[]): boolean {
  const [last, before] = rounds.toReversed();
  if (!last) return false;
  if (last.durationMs <= shortMs || rounds.length >= mostRounds) return true;
  return before !== undefined && last.sentBytes > shrinking * before.sentBytes;
}
