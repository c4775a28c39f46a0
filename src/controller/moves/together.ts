import { isUnwanted, type MovePhase, phaseOf, type StoredVolumeMove } from '../../api/volume-move.ts';
import { type Observed, type Partner, siblingsIn } from './observed.ts';

/*
 * A pod runs on one node, so the moves of its volumes stop it together, and are committed or aborted together. Which moves
 * these are is recorded before the pod is stopped, because afterwards there may be no pod that shows it. The record of one
 * of them counts for both: the other one may find no pod any more.
 */

const committed: ReadonlySet<MovePhase> = new Set(['Committed', 'Switching', 'Opening', 'Cleaning', 'Done']);
const aborted: ReadonlySet<MovePhase> = new Set(['Aborting', 'Aborted', 'Failed']);

/** Those of all moves of the namespace that belong together with this one, according to either of them. */
export function recordedPartners(
  { metadata, status }: StoredVolumeMove,
  all: readonly StoredVolumeMove[],
): readonly Partner[] {
  const naming = all.filter((other) => other.status?.together?.includes(metadata.name));
  const names = new Set([...(status?.together ?? []), ...naming.map((other) => other.metadata.name)]);
  return [...names].map((name) => ({ name, move: all.find((other) => other.metadata.name === name) }));
}

/** Whether one of them is committed: then it is too late to abort another. */
export function isCommittedTogether({ partners }: Observed): boolean {
  return partners.some(({ move }) => move && committed.has(phaseOf(move)));
}

/** One that is aborted, or will be. */
export function abortedPartner(seen: Observed): string | undefined {
  const isAborted = (move: StoredVolumeMove) => aborted.has(phaseOf(move)) || isUnwanted(move);
  const recorded = seen.partners.find(({ move }) => !move || isAborted(move));
  return recorded?.name ?? siblingsIn(seen).find(isAborted)?.metadata.name;
}

/** One whose target has not all data yet. */
export function unreadyPartner({ partners }: Observed): string | undefined {
  const isReady = (move: StoredVolumeMove) => committed.has(phaseOf(move)) || Boolean(move.status?.target?.verdict);
  return partners.find(({ move }) => move && !isReady(move))?.name;
}
