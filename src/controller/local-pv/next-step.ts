import { localPvAnnotations, localPvFinalizer, localPvStatus, pvProtectionFinalizer } from '../../api/local-pv.ts';
import { nodeRemovedAnnotation } from '../../api/names.ts';
import { InvalidInput } from '../../base/errors.ts';
import type { EventContent } from '../../kube/events.ts';
import { type LabelledNode, selectorText, selects } from '../../kube/node-selector.ts';
import type { PersistentVolume, Stored } from '../../kube/resource.ts';
import type { LiveDefaults } from '../../local-pv/live-defaults.ts';
import { isStaticVolume, staticVolume } from '../../local-pv/static-volume.ts';

export interface KnownNode extends LabelledNode {
  readonly uid: string;
  /** Whether the Node is being deleted and has our finalizer. */
  readonly isLeaving: boolean;
}

/** What decides about a static volume besides its PersistentVolume. */
export interface Surroundings {
  /** All Nodes of the cluster, by name. */
  readonly nodes: ReadonlyMap<string, KnownNode>;
  readonly defaults: Pick<LiveDefaults, 'get'>;
  readonly mountBase: string;
}

/** What the controller does next for a static volume: that which its agent may not do. */
export type Step =
  /** The agent of this node creates the volume. */
  | { readonly kind: 'assign'; readonly nodeName: string }
  /** Nobody can create the volume. Once it has a node, only the agent says so. */
  | { readonly kind: 'refuse'; readonly message: string }
  /** The agent has emptied the volume after its claim was deleted. */
  | { readonly kind: 'makeAvailable' }
  /** The PersistentVolume is deleted, and the agent has removed its volume. */
  | { readonly kind: 'removeFinalizer' }
  /** The PersistentVolume is deleted, and there is no agent. */
  | { readonly kind: 'giveUp'; readonly nodeName: string }
  /** Its node was removed, and a Node of that name is back. */
  | { readonly kind: 'forgetRemoval' }
  | Report;

interface Report {
  readonly kind: 'report';
  readonly event: EventContent;
}

/** Undefined if there is nothing to do until something changes. */
export function nextStep(volume: Stored<PersistentVolume>, surroundings: Surroundings): Step | undefined {
  const { annotations = {}, finalizers = [], deletionTimestamp } = volume.metadata;
  const isHeld = finalizers.includes(localPvFinalizer);
  const isDeleting = deletionTimestamp !== undefined;
  if (isHeld && isDeleting && annotations[localPvAnnotations.removed] === 'true') return { kind: 'removeFinalizer' };
  const nodeName = annotations[localPvAnnotations.node];
  // A node without our finalizer was written by others, such as k8s-local-pv, which has names of its own for nodes.
  if (isHeld && nodeName !== undefined) return stepWithNode(volume, nodeName, surroundings);
  if (isDeleting && !isHeld) return undefined;
  return isHeld || isStaticVolume(volume, surroundings.mountBase) ? stepWithoutNode(volume, surroundings) : undefined;
}

function stepWithNode(
  volume: Stored<PersistentVolume>,
  nodeName: string,
  surroundings: Surroundings,
): Step | undefined {
  const { nodes } = surroundings;
  const { annotations = {}, finalizers = [], deletionTimestamp } = volume.metadata;
  const node = nodes.get(nodeName);
  if (deletionTimestamp !== undefined) {
    const isBound = finalizers.includes(pvProtectionFinalizer);
    return node || isBound ? undefined : { kind: 'giveUp', nodeName };
  }
  if (isReleased(volume) && !keepsData(volume, surroundings)) return { kind: 'makeAvailable' };
  if (!node) return report('NodeGone', gone(nodeName));
  const removedUid = annotations[nodeRemovedAnnotation];
  if (removedUid !== undefined && removedUid !== node.uid) return { kind: 'forgetRemoval' };
  return selects(affinityOf(volume), node) ? undefined : report('NodeMismatch', mismatch(volume, nodeName, nodes));
}

/** The agent has emptied it after the very claim that it is still bound to. */
function isReleased({ metadata, spec, status }: Stored<PersistentVolume>): boolean {
  const emptiedAfter = metadata.annotations?.[localPvAnnotations.released];
  return status?.phase === 'Released' && emptiedAfter !== undefined && emptiedAfter === spec?.claimRef?.uid;
}

/** Whether auto-release keeps the data. Agents of earlier versions answer for such a volume, too, without emptying it. */
export function keepsData(
  volume: Stored<PersistentVolume>,
  { defaults, mountBase }: Pick<Surroundings, 'defaults' | 'mountBase'>,
): boolean {
  try {
    const { autoRelease, onRelease } = staticVolume(volume, defaults.get(), mountBase);
    return autoRelease && onRelease === 'keep';
  } catch (error) {
    if (error instanceof InvalidInput) return false; // an Event says so
    throw error;
  }
}

function stepWithoutNode(volume: Stored<PersistentVolume>, surroundings: Surroundings): Step | undefined {
  const fault = faultOf(volume, surroundings);
  if (fault !== undefined) return refuse(volume, fault);
  const matching = matchingNodes(volume, surroundings.nodes);
  const [only] = matching;
  if (only !== undefined && matching.length === 1) return { kind: 'assign', nodeName: only };
  return refuse(volume, only === undefined ? matchesNone(volume) : matchesSeveral(volume, matching));
}

/** That of a PersistentVolume that no node could process. */
function faultOf(
  volume: Stored<PersistentVolume>,
  { defaults, mountBase }: Pick<Surroundings, 'defaults' | 'mountBase'>,
): string | undefined {
  try {
    staticVolume(volume, defaults.get(), mountBase);
    return undefined;
  } catch (error) {
    if (error instanceof InvalidInput) return error.message;
    throw error;
  }
}

/** A new volume on a Node that is being deleted would be lost with it. */
function matchingNodes(volume: PersistentVolume, nodes: Surroundings['nodes']): readonly string[] {
  return [...nodes.values()]
    .filter((node) => !node.isLeaving && selects(affinityOf(volume), node))
    .map(({ name }) => name);
}

function affinityOf({ spec }: PersistentVolume) {
  return spec?.nodeAffinity?.required;
}

function refuse({ metadata }: Stored<PersistentVolume>, message: string): Step | undefined {
  const { annotations = {} } = metadata;
  const isSaid = annotations[localPvAnnotations.message] === message && localPvAnnotations.status in annotations;
  return isSaid ? undefined : { kind: 'refuse', message };
}

function report(reason: string, message: string): Report {
  return { kind: 'report', event: { type: 'Warning', reason, action: 'Finding', message } };
}

function matchesNone(volume: PersistentVolume): string {
  return (
    `no node matches spec.nodeAffinity: ${selectorText(affinityOf(volume))}; label the node that has the disks, ` +
    'or create the PersistentVolume again with the label of a node'
  );
}

const shown = 3;

function matchesSeveral(volume: PersistentVolume, names: readonly string[]): string {
  const more = names.length > shown ? ` and ${names.length - shown} more` : '';
  return (
    `spec.nodeAffinity: ${selectorText(affinityOf(volume))} matches ${names.length} nodes, ${names.slice(0, shown).join(', ')}${more}, ` +
    'but a volume is on one; create the PersistentVolume again with a label that only one node has'
  );
}

function gone(nodeName: string): string {
  return (
    `node ${nodeName}, which has the volume, is not in the cluster; bring it back with its disks, ` +
    'or see docs/static-volumes.md#remove'
  );
}

function mismatch(volume: PersistentVolume, nodeName: string, nodes: Surroundings['nodes']): string {
  const others = matchingNodes(volume, nodes).slice(0, shown);
  const matched = others.length > 0 ? others.join(', ') : 'no node';
  return (
    `the volume is on node ${nodeName}, but spec.nodeAffinity: ${selectorText(affinityOf(volume))} now matches ${matched}; ` +
    `a volume does not move: label node ${nodeName} as before`
  );
}

/** A merge patch of the PersistentVolume. */
export interface Change {
  readonly metadata: {
    readonly annotations?: Readonly<Record<string, string | null>>;
    readonly finalizers?: readonly string[];
  };
  readonly spec?: { readonly claimRef: null };
}

export function changeOf(step: Exclude<Step, Report>, { metadata }: Stored<PersistentVolume>): Change {
  const { annotations = {}, finalizers = [] } = metadata;
  const isProcessed = annotations[localPvAnnotations.status] === localPvStatus.processed;
  switch (step.kind) {
    case 'assign':
      return {
        metadata: {
          finalizers: [...new Set([...finalizers, localPvFinalizer])],
          annotations: {
            [localPvAnnotations.node]: step.nodeName,
            // The volume of k8s-local-pv exists, also if the first attempt to use it fails.
            ...(isProcessed ? { [localPvAnnotations.processed]: 'true' } : { [localPvAnnotations.status]: null }),
            [localPvAnnotations.message]: null,
            [localPvAnnotations.removed]: null,
            [localPvAnnotations.released]: null,
          },
        },
      };
    case 'refuse':
      return {
        metadata: {
          annotations: {
            ...(!isProcessed && { [localPvAnnotations.status]: localPvStatus.failed }),
            [localPvAnnotations.message]: step.message,
          },
        },
      };
    case 'makeAvailable':
      return { metadata: { annotations: { [localPvAnnotations.released]: null } }, spec: { claimRef: null } };
    case 'removeFinalizer':
    case 'giveUp':
      return { metadata: { finalizers: finalizers.filter((name) => name !== localPvFinalizer) } };
    case 'forgetRemoval':
      return { metadata: { annotations: { [nodeRemovedAnnotation]: null } } };
  }
}
