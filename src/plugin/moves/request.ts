import { abortAnnotation, driverName } from '../../api/names.ts';
import {
  claimOfMove,
  isCopy,
  isOver,
  newVolumeMove,
  phaseOf,
  type StoredVolumeMove,
  type VolumeMove,
  volumeMoves,
} from '../../api/volume-move.ts';
import { InvalidInput, MoorageError } from '../../base/errors.ts';
import type { KubeClient } from '../../kube/client.ts';
import {
  apiVersionOf,
  claimNamesOf,
  nodes,
  type PersistentVolume,
  persistentVolumeClaims,
  persistentVolumes,
  pods,
  type Stored,
} from '../../kube/resource.ts';
import { nodeOf } from '../facts.ts';
import { staticVolumeFacts } from '../static-volumes.ts';

export interface MoveOptions {
  readonly namespace: string;
  readonly targetNode: string | undefined;
  readonly stopBarePods: boolean;
  /** A quantity of bytes per second. */
  readonly rateLimit: string | undefined;
}

/** What a person names: `pod/NAME`, `pvc/NAME`, or the name of a claim or else of a pod. For a pod, all its claims with a chosen volume. */
export async function claimsNamed(
  client: KubeClient,
  word: string,
  namespace: string,
  signal: AbortSignal,
  isChosen: (volume: Stored<PersistentVolume>) => boolean = isOurs,
): Promise<readonly string[]> {
  const [first = '', second, ...rest] = word.split('/');
  const kind = second === undefined ? '' : first;
  const name = second ?? first;
  if (!['', 'pod', 'pvc'].includes(kind) || name === '' || rest.length > 0) {
    throw new InvalidInput(`${word}: use pod/NAME or pvc/NAME, and choose the namespace with -n`);
  }
  const claim = kind === 'pod' ? undefined : await client.get(persistentVolumeClaims, name, { namespace, signal });
  if (claim) return [name];
  const pod = kind === 'pvc' ? undefined : await client.get(pods, name, { namespace, signal });
  if (!pod) throw new NothingToMove(`there is no ${kind || 'claim or pod'} ${name} in namespace ${namespace}`);
  const ours: string[] = [];
  for (const each of claimNamesOf(pod)) {
    const used = await client.get(persistentVolumeClaims, each, { namespace, signal });
    const volumeName = used?.spec?.volumeName;
    const volume = volumeName ? await client.get(persistentVolumes, volumeName, { signal }) : undefined;
    if (volume && isChosen(volume)) ours.push(each);
  }
  if (ours.length === 0) throw new NothingToMove(`pod ${namespace}/${name} uses no volume of Moorage`);
  return ours;
}

/** Reads what a move needs, so that none is created that can only fail. */
export async function refuseImpossible(
  client: KubeClient,
  claimName: string,
  { namespace, targetNode }: Pick<MoveOptions, 'namespace' | 'targetNode'>,
  signal: AbortSignal,
): Promise<void> {
  if (targetNode && !(await client.get(nodes, targetNode, { signal }))) {
    throw new NothingToMove(`there is no node ${targetNode}; see kubectl get nodes`);
  }
  const claim = await client.get(persistentVolumeClaims, claimName, { namespace, signal });
  const volumeName = claim?.status?.phase === 'Bound' ? claim.spec?.volumeName : undefined;
  const volume = volumeName ? await client.get(persistentVolumes, volumeName, { signal }) : undefined;
  const reason = impossible(volume, targetNode);
  if (reason) throw new CannotMove(`claim ${namespace}/${claimName} cannot move: ${reason}`);
}

/** Why the volume of a claim cannot move, as far as it and the target tell. */
export function impossible(
  volume: Stored<PersistentVolume> | undefined,
  targetNode: string | undefined,
): string | undefined {
  if (!volume) return 'it is not bound to a volume';
  if (staticVolumeFacts(volume)) return 'static volumes do not move';
  if (!isOurs(volume)) return `PersistentVolume ${volume.metadata.name} is not a volume of Moorage`;
  return targetNode && nodeOf(volume) === targetNode ? `its volume is on node ${targetNode} already` : undefined;
}

function isOurs({ spec }: PersistentVolume): boolean {
  return spec?.csi?.driver === driverName;
}

export function moveOf(claimName: string, options: MoveOptions): VolumeMove {
  const { namespace, targetNode, stopBarePods, rateLimit } = options;
  return {
    apiVersion: apiVersionOf(volumeMoves),
    kind: volumeMoves.kind,
    ...newVolumeMove(namespace, {
      claimName,
      ...(targetNode && { targetNode }),
      ...(stopBarePods && { stopBarePods }),
      ...(rateLimit && { rateLimit }),
    }),
  };
}

/** The move of this name, or else the one that moves the claim of this name. */
export async function moveNamed(
  client: KubeClient,
  name: string,
  namespace: string,
  signal: AbortSignal,
): Promise<StoredVolumeMove> {
  const named = await client.get(volumeMoves, name, { namespace, signal });
  if (named) return named;
  const { items } = await client.list(volumeMoves, { namespace, signal });
  const move = items.find((each) => !isOver(each) && claimOfMove(each) === `${namespace}/${name}`);
  if (!move)
    throw new NothingToMove(`there is no move ${name}, and none of a claim ${name}, in namespace ${namespace}`);
  return move;
}

const abortable: ReadonlySet<string> = new Set(['Pending', 'Copying', 'Stopping', 'Freezing', 'Aborting']);

/** Before the verdict everything becomes as it was; after it, the move goes on. */
export function refuseUnlessAbortable(move: StoredVolumeMove): void {
  const { name } = move.metadata;
  if (isCopy(move)) {
    throw new CannotAbort(
      `${name} copies data for a new claim, and would begin again; it ends when claim ${move.spec.claimName} is deleted`,
    );
  }
  const phase = phaseOf(move);
  if (isOver(move)) throw new CannotAbort(`move ${name} is over: ${phase}`);
  if (!abortable.has(phase)) {
    throw new CannotAbort(`move ${name} is ${phase}: the target has all data, and the move goes on`);
  }
}

export async function abortMove(client: KubeClient, move: StoredVolumeMove, signal: AbortSignal): Promise<void> {
  const { name, namespace, uid } = move.metadata;
  const body = { metadata: { uid, annotations: { [abortAnnotation]: 'true' } } };
  await client.patch(volumeMoves, name, { type: 'merge', body }, { namespace, signal });
}

export class NothingToMove extends MoorageError {
  readonly code = 'NotFound';
}

class CannotMove extends MoorageError {
  readonly code = 'FailedPrecondition';
}

class CannotAbort extends MoorageError {
  readonly code = 'FailedPrecondition';
}
