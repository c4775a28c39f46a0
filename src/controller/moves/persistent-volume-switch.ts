import { driverName, topologyKey } from '../../api/names.ts';
import { claimOfMove, type StoredVolumeMove } from '../../api/volume-move.ts';
import { MoorageError } from '../../base/errors.ts';
import { affinityValues, type PersistentVolume, type Stored } from '../../kube/resource.ts';

/**
 * The next step to replace a PersistentVolume by another of the same name. Kubernetes lets nobody change its handle, so it is
 * deleted and created again. Each step can be repeated, and what a crash leaves decides the next one:
 *
 *     as it was ── retain ──▶ Retain ── delete ──▶ Terminating ── strip ──▶ none ── create ──▶ as wanted
 *
 * It is retained first: if its claim is deleted meanwhile, nobody deletes the data.
 */
export type SwitchStep =
  | { readonly kind: 'retain-volume' | 'delete-volume' | 'strip-volume'; readonly volume: Stored<PersistentVolume> }
  | { readonly kind: 'create-volume'; readonly wanted: PersistentVolume }
  | { readonly kind: 'switched' }
  /** Somebody else has created a PersistentVolume of this name: it is not touched. */
  | { readonly kind: 'foreign' };

export interface SwitchedVolume {
  /** The CSI volume ID. */
  readonly handle: string;
  readonly nodeName: string;
}

/** `known` are the handles of the source and the target of the move. */
export function switchStep(
  current: Stored<PersistentVolume> | undefined,
  wanted: PersistentVolume,
  known: readonly (string | undefined)[],
): SwitchStep {
  if (!current) return { kind: 'create-volume', wanted };
  const handle = handleOf(current);
  const isOfClaim = current.spec?.claimRef?.uid === wanted.spec?.claimRef?.uid;
  if (!isOfClaim || !handle || !known.includes(handle)) return { kind: 'foreign' };
  if (current.metadata.deletionTimestamp) return { kind: 'strip-volume', volume: current };
  const policy = current.spec?.persistentVolumeReclaimPolicy;
  // On the way back it may be the right volume already, but retained: only a new object can have the original policy again.
  const isRightPolicy = policy !== 'Retain' || wanted.spec?.persistentVolumeReclaimPolicy === 'Retain';
  if (handle === handleOf(wanted) && isRightPolicy) return { kind: 'switched' };
  return { kind: policy === 'Retain' ? 'delete-volume' : 'retain-volume', volume: current };
}

/** Everything of a PersistentVolume that a new one needs, as text: what the API server sets is left out. */
export function manifestOf({ metadata, spec }: Stored<PersistentVolume>): string {
  const { name, labels, annotations, finalizers, ownerReferences } = metadata;
  const { resourceVersion: _, ...claimRef } = spec?.claimRef ?? {};
  return JSON.stringify({
    metadata: { name, labels, annotations, finalizers, ownerReferences },
    spec: { ...spec, claimRef },
  });
}

/** The PersistentVolume as it was. Undefined if the status has none, or that of another claim. */
export function savedVolume(move: StoredVolumeMove): PersistentVolume | undefined {
  const { manifest, persistentVolume } = move.status ?? {};
  const saved = parsed(manifest ?? '');
  const isIts = saved?.metadata?.name === persistentVolume && saved?.spec?.csi?.driver === driverName;
  return isIts && isOfClaim(saved, move) ? saved : undefined;
}

function parsed(manifest: string): PersistentVolume | undefined {
  try {
    return JSON.parse(manifest) as PersistentVolume;
  } catch {
    return undefined;
  }
}

/** Whether it is bound to the claim that is moved. A claim can name any PersistentVolume; only the PersistentVolume says whose it is. */
export function isOfClaim({ spec }: PersistentVolume, move: StoredVolumeMove): boolean {
  const { namespace, name, uid } = spec?.claimRef ?? {};
  return uid !== undefined && uid === move.status?.claimUID && `${namespace}/${name}` === claimOfMove(move);
}

/** The same PersistentVolume with another volume, on another node. */
export function switchedTo(saved: PersistentVolume, { handle, nodeName }: SwitchedVolume): PersistentVolume {
  const { spec } = saved;
  if (!spec?.csi || !affinityValues(saved, topologyKey)) throw new NotSwitchable(saved.metadata?.name ?? '');
  const nodeSelectorTerms = spec.nodeAffinity?.required?.nodeSelectorTerms?.map((term) => ({
    ...term,
    matchExpressions: (term.matchExpressions ?? []).map((expression) =>
      expression.key === topologyKey ? { ...expression, values: [nodeName] } : expression,
    ),
  }));
  return {
    ...saved,
    spec: {
      ...spec,
      csi: { ...spec.csi, volumeHandle: handle },
      nodeAffinity: { required: { nodeSelectorTerms: nodeSelectorTerms ?? [] } },
    },
  };
}

export function handleOf({ spec }: PersistentVolume): string | undefined {
  return spec?.csi?.volumeHandle;
}

class NotSwitchable extends MoorageError {
  readonly code = 'Internal';

  constructor(name: string) {
    super(
      `the saved PersistentVolume ${name} has no volume of this driver on one node; look at the manifest of the move`,
    );
  }
}
