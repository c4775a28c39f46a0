import { reserve } from '../../api/names.ts';
import { podConstraints } from '../../kube/pod-constraints.ts';
import type { Node, PersistentVolumeClaim, Pod, Stored } from '../../kube/resource.ts';
import { placeholderName } from './placeholder.ts';

/** Everything that decides about the room of a pod that is away, read from the API server just before. */
export interface Observed {
  readonly claim: Stored<PersistentVolumeClaim> | undefined;
  /** The node of its volume; undefined if it has none, or the volume is not Moorage's. */
  readonly node: Stored<Node> | undefined;
  /** Whether a VolumeMove is about to take the volume to another node. */
  readonly isMoving: boolean;
  /** Whether another claim of the same pod reserves the room of both. */
  readonly isLeftToOther: boolean;
  /** Those that use the claim and have not ended. */
  readonly pods: readonly Stored<Pod>[];
  /** Of claims with this name, also of earlier ones. */
  readonly placeholders: readonly Stored<Pod>[];
  /** The instance of kube-scheduler that leads; undefined if it is not known. */
  readonly scheduler: string | undefined;
}

export type Step =
  | { readonly kind: 'nothing' }
  /** A placeholder for this pod. */
  | { readonly kind: 'create'; readonly pod: Stored<Pod>; readonly nodeName: string }
  /** The scheduler counts the placeholder on the node. */
  | { readonly kind: 'nominate-placeholder'; readonly placeholder: Stored<Pod>; readonly nodeName: string }
  /** The scheduler counts the pod itself on the node, until its next attempt. */
  | { readonly kind: 'nominate-pod'; readonly pod: Stored<Pod>; readonly nodeName: string }
  | { readonly kind: 'delete'; readonly placeholder: Stored<Pod> };

/**
 * The room of a pod that is away is kept by a placeholder: a pod that never runs, which kube-scheduler counts on the node
 * because it is nominated for it. It counts for pods of the same priority, and so it also keeps the pod itself out: once the
 * node would take the pod, the pod is nominated in place of the placeholder. Not earlier, because the scheduler withdraws
 * the nomination of a pod with each attempt that fails.
 */
export function nextStep(seen: Observed): Step {
  const { claim, node, isMoving, isLeftToOther, pods, placeholders } = seen;
  const nothing: Step = { kind: 'nothing' };
  const word = claim?.metadata.annotations?.[reserve.annotation];
  const isRunning = pods.some((pod) => pod.spec?.nodeName && !isEnding(pod));
  const isWanted = word === 'true' && !claim?.metadata.deletionTimestamp && !isMoving && !isLeftToOther && !isRunning;
  const nodeName = node?.metadata.name;
  const own = placeholders.find((placeholder) => isWanted && isFor(placeholder, claim, nodeName));
  const stale = placeholders.find((placeholder) => placeholder !== own);
  if (stale) return { kind: 'delete', placeholder: stale };
  if (!isWanted || !nodeName) return nothing;

  const waiting = pods.find((pod) => !pod.spec?.nodeName && !isEnding(pod));
  const leaving = pods.find((pod) => pod.spec?.nodeName === nodeName);
  if (waiting && !leaving && podConstraints(waiting, node).length === 0) return handOver(waiting, own, nodeName);
  if (own) return isNominated(own, nodeName, seen.scheduler) ? nothing : nominated(own, nodeName);
  const away = waiting ?? leaving;
  return away ? { kind: 'create', pod: away, nodeName } : nothing;
}

/** After its first attempt has failed, the scheduler does not look at the pod again before the placeholder is gone. */
function handOver(pod: Stored<Pod>, placeholder: Stored<Pod> | undefined, nodeName: string): Step {
  const wasTried = pod.status?.conditions?.some(({ type, status }) => type === 'PodScheduled' && status === 'False');
  if (!placeholder || !wasTried) return { kind: 'nothing' };
  return pod.status?.nominatedNodeName === nodeName
    ? { kind: 'delete', placeholder }
    : { kind: 'nominate-pod', pod, nodeName };
}

function nominated(placeholder: Stored<Pod>, nodeName: string): Step {
  return { kind: 'nominate-placeholder', placeholder, nodeName };
}

/** A scheduler that has started since does not count a placeholder, before it sees a change of it. */
function isNominated({ metadata, status }: Stored<Pod>, nodeName: string, scheduler: string | undefined): boolean {
  const told = metadata.annotations?.[reserve.toldAnnotation];
  return status?.nominatedNodeName === nodeName && (scheduler === undefined || told === scheduler);
}

/** A placeholder that is not nominated yet is for the node that it will be nominated for. */
function isFor(
  { metadata, status }: Stored<Pod>,
  claim: Stored<PersistentVolumeClaim> | undefined,
  nodeName: string | undefined,
): boolean {
  const { nominatedNodeName = nodeName } = status ?? {};
  return claim !== undefined && metadata.name === placeholderName(claim) && nominatedNodeName === nodeName;
}

function isEnding({ metadata }: Stored<Pod>): boolean {
  return metadata.deletionTimestamp !== undefined;
}
