import { abortAnnotation, driverName } from '../../api/names.ts';
import {
  claimOfMove,
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
  type PersistentVolume,
  persistentVolumeClaims,
  persistentVolumes,
  pods,
  type Stored,
} from '../../kube/resource.ts';

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

const abortable: ReadonlySet<string> = new Set(['Pending', 'Copying', 'Stopping', 'Freezing', 'Aborting', 'Aborted']);

/** Before the verdict everything becomes as it was; after it, the move goes on. */
export async function abortMove(client: KubeClient, move: StoredVolumeMove, signal: AbortSignal): Promise<void> {
  const { name, namespace, uid } = move.metadata;
  const phase = phaseOf(move);
  if (!abortable.has(phase)) {
    throw new TooLate(`move ${name} is ${phase}: the target has all data, and the move goes on`);
  }
  const body = { metadata: { uid, annotations: { [abortAnnotation]: 'true' } } };
  await client.patch(volumeMoves, name, { type: 'merge', body }, { namespace, signal });
}

export class NothingToMove extends MoorageError {
  readonly code = 'NotFound';
}

export class TooLate extends MoorageError {
  readonly code = 'FailedPrecondition';
}
