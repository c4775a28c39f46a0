import { pvProtectionFinalizer } from '../api/local-pv.ts';
import { deleting, removalFailureOf, type StoredLogicalVolume, volumeIdOf } from '../api/logical-volume.ts';
import {
  logicalVolume,
  nodeFinalizer,
  oldClaimFinalizers,
  otherNodeFinalizer,
  otherFinalizers as theirs,
} from '../api/names.ts';
import { isOver } from '../api/volume-move.ts';
import type { Node, ObjectMeta, PersistentVolume, Pod, Stored, VolumeSnapshot } from '../kube/resource.ts';
import { type Finding, listed } from './explanation.ts';
import { type Claim, eventText, type Known } from './known.ts';
import { agentOf, controllerPods, isSilent, notReady } from './nodes.ts';

interface Deleted {
  readonly metadata: { readonly deletionTimestamp?: string; readonly finalizers?: readonly string[] };
}

/** The finalizers of an object that is being deleted; none if it is not. */
function finalizersOf({ metadata: { deletionTimestamp, finalizers = [] } }: Deleted): readonly string[] {
  return deletionTimestamp === undefined ? [] : finalizers;
}

/** Why a claim that is being deleted is still there. */
export function claimDeletion(claim: Claim, known: Known): Finding | undefined {
  const finalizers = finalizersOf(claim);
  const [first] = finalizers;
  if (first === undefined) return undefined;
  if (finalizers.includes(theirs.claimInUse)) return usedByPods(claim, known);
  if (finalizers.includes(theirs.snapshotSource)) return usedBySnapshot(claim, known);
  if (finalizers.includes(theirs.copySource)) return usedByCopy(claim, known);
  const isOld = oldClaimFinalizers.some((name) => name === first);
  return isOld
    ? {
        code: 'OtherFinalizer',
        cause: `it has TopoLVM's finalizer ${first}, which Moorage's controller removes`,
        advice: 'see whether the controller runs',
        evidence: finalizerEvidence('claim', claim, first),
        remedy: [controllerPods],
      }
    : otherFinalizer('claim', claim, finalizers);
}

function finalizerEvidence(
  kind: string,
  { metadata }: { readonly metadata: { readonly name: string } },
  finalizer: string,
) {
  return [`${kind} ${metadata.name}: is being deleted, finalizer ${finalizer}`];
}

function otherFinalizer(
  kind: string,
  object: { readonly metadata: { readonly name: string } },
  finalizers: readonly string[],
): Finding {
  const names = listed(finalizers);
  return {
    code: 'OtherFinalizer',
    cause: `it is being deleted, and has the finalizer ${names}, which another program removes`,
    advice: 'see whether that program runs',
    evidence: finalizerEvidence(kind, object, names),
  };
}

/** Kubernetes keeps the claim while a pod on a node names it, even one that has completed. */
function usedByPods(claim: Claim, known: Known): Finding {
  const evidence = finalizerEvidence('claim', claim, theirs.claimInUse);
  if (known.objects.pods === undefined) {
    return {
      code: 'UsedByPod',
      cause: 'it is being deleted while a pod uses it, and pods could not be read',
      evidence,
    };
  }
  const users = known.namesakes(claim.metadata).filter(({ spec }) => spec?.nodeName);
  const [user] = users;
  if (!user) return { code: 'BeingRemoved', cause: 'it is being deleted, and no pod uses it any more', evidence };
  const { name, namespace, deletionTimestamp } = user.metadata;
  const isComplete = user.status?.phase === 'Succeeded' || user.status?.phase === 'Failed';
  const how = deletionTimestamp
    ? `pod ${name} on node ${user.spec?.nodeName} still ends`
    : isComplete
      ? `pod ${name} names it, although it has completed`
      : `pod ${name} uses it`;
  return {
    code: 'UsedByPod',
    cause: `it is being deleted, and ${how}`,
    ...(deletionTimestamp ? {} : { advice: `delete ${users.length > 1 ? 'the pods' : 'the pod'}` }),
    evidence: [...evidence, ...users.slice(0, 5).map(podLine)],
    remedy: deletionTimestamp
      ? [`kubectl get node ${user.spec?.nodeName}`]
      : [`kubectl delete pod ${users.map(({ metadata }) => metadata.name).join(' ')} -n ${namespace}`],
  };
}

function podLine({ metadata, spec, status }: Stored<Pod>): string {
  return `pod ${metadata.name}: ${status?.phase} on node ${spec?.nodeName}`;
}

function usedBySnapshot(claim: Claim, known: Known): Finding {
  const { name } = claim.metadata;
  const snapshot = known.objects.snapshots?.find(
    ({ spec, status }) => spec?.source?.persistentVolumeClaimName === name && !status?.readyToUse,
  );
  return {
    code: 'UsedAsSource',
    cause: `it is being deleted while ${snapshot ? `VolumeSnapshot ${snapshot.metadata.name}` : 'a VolumeSnapshot'} of it is being created`,
    ...(snapshot && { advice: 'it goes when the snapshot is ready or deleted' }),
    evidence: finalizerEvidence('claim', claim, theirs.snapshotSource),
    remedy: snapshot
      ? [`kubectl moorage why volumesnapshot/${snapshot.metadata.name} -n ${claim.metadata.namespace}`]
      : [],
  };
}

function usedByCopy(claim: Claim, known: Known): Finding {
  const { namespace } = claim.metadata;
  const copy = pendingCopy('PersistentVolumeClaim', claim, known);
  return {
    code: 'UsedAsSource',
    cause: `it is being deleted while ${copy ? `claim ${copy.metadata.name}` : 'another claim'} copies it`,
    advice: 'it goes when the copy is complete or deleted',
    evidence: finalizerEvidence('claim', claim, theirs.copySource),
    remedy: copy ? [`kubectl moorage why pvc/${copy.metadata.name} -n ${namespace}`] : [],
  };
}

/** A claim that waits for a copy of the source. */
function pendingCopy(kind: string, { metadata }: { readonly metadata: ObjectMeta }, known: Known): Claim | undefined {
  return known.objects.claims?.find(
    ({ metadata: { namespace }, spec, status }) =>
      namespace === metadata.namespace &&
      spec?.dataSource?.kind === kind &&
      spec.dataSource.name === metadata.name &&
      status?.phase === 'Pending',
  );
}

/** Why a PersistentVolume whose claim is gone, or that is being deleted, is still there. */
export function volumeDeletion(pv: Stored<PersistentVolume>, known: Known): Finding | undefined {
  const { name } = pv.metadata;
  const phase = pv.status?.phase;
  const finalizers = finalizersOf(pv);
  const owner = pv.spec?.claimRef;
  if (phase === 'Bound' && finalizers.includes(pvProtectionFinalizer)) {
    return {
      code: 'UsedByClaim',
      cause: `it is being deleted, and claim ${owner?.namespace}/${owner?.name} uses it`,
      advice: 'it stays as long as the claim does',
      evidence: finalizerEvidence('PersistentVolume', pv, pvProtectionFinalizer),
      remedy: [`kubectl moorage volume pvc/${owner?.name} -n ${owner?.namespace}`],
    };
  }
  if (phase !== 'Released' && phase !== 'Failed' && finalizers.length === 0) return undefined;
  if (phase === 'Released' && pv.spec?.persistentVolumeReclaimPolicy === 'Retain' && finalizers.length === 0) {
    return {
      code: 'Retained',
      cause: `is kept on purpose: its claim ${owner?.namespace}/${owner?.name} was deleted, and its reclaim policy is Retain`,
      evidence: [`PersistentVolume ${name}: phase Released, reclaim policy Retain`],
      remedy: [
        `kubectl moorage reattach pv/${name} # gives it to a claim again`,
        `kubectl moorage purge pv/${name} # shows what would be lost`,
      ],
    };
  }
  const volume = known.logicalVolumeOfPv(pv);
  const event = known.lastEvent(pv, ['VolumeFailedDelete']);
  const more = event ? [eventText(event)] : [];
  if (volume) {
    const found = logicalVolumeDeletion(volume, known);
    if (found) return { ...found, evidence: [...(found.evidence ?? []), ...more] };
  }
  if (event) {
    return { code: 'RemovalFailed', cause: `its volume cannot be removed: ${event.note}`, evidence: more };
  }
  const first = finalizers.find((finalizer) => finalizer !== theirs.provisioned && finalizer !== pvProtectionFinalizer);
  if (first) return otherFinalizer('PersistentVolume', pv, finalizers);
  return { code: 'BeingRemoved', cause: 'its claim was deleted, and its volume is being removed' };
}

/** Why a LogicalVolume that is being deleted is still there: its node has the volume. */
export function logicalVolumeDeletion(volume: StoredLogicalVolume, known: Known): Finding | undefined {
  if (!deleting(volume)) return undefined;
  const { nodeName } = volume.spec;
  const { name, finalizers = [] } = volume.metadata;
  const evidence = [`LogicalVolume ${name}: is being deleted, on node ${nodeName}, finalizers ${listed(finalizers)}`];
  const failure = removalFailureOf(volume);
  if (failure) {
    return { code: 'RemovalFailed', cause: `node ${nodeName} cannot remove its volume: ${failure.message}`, evidence };
  }
  const erasure = known
    .nodeStorage(nodeName)
    ?.status?.erasures.volumes.find((each) => each.name === volumeIdOf(volume));
  if (erasure) {
    return {
      code: 'Erasing',
      cause: `its data is being erased on node ${nodeName}, ${erasure.donePercent} % done`,
      evidence: [...evidence, `NodeStorage ${nodeName}: erases ${erasure.name}, ${erasure.donePercent} %`],
    };
  }
  const node = known.node(nodeName);
  if (known.objects.nodes !== undefined && (!node || isSilent(node))) {
    return {
      code: 'RemovalWaitsForNode',
      cause: node
        ? `its volume is removed by node ${nodeName}, and ${notReady(node)}`
        : `its volume is on node ${nodeName}, which does not exist`,
      advice: node ? 'start the node' : 'bring the node back, or see kubectl moorage orphans',
      evidence,
      remedy: node ? [`kubectl get node ${nodeName}`] : ['kubectl moorage orphans'],
    };
  }
  if (!finalizers.includes(logicalVolume.finalizer)) return otherFinalizer('LogicalVolume', volume, finalizers);
  return {
    code: 'BeingRemoved',
    cause: `node ${nodeName} is removing its volume`,
    evidence,
    remedy: [agentOf(nodeName)],
  };
}

/** Why a Node that is being deleted is still there. */
export function nodeDeletion(node: Stored<Node>, known: Known): Finding | undefined {
  const finalizers = finalizersOf(node);
  const own = finalizers.find((name) => name === nodeFinalizer || name === otherNodeFinalizer);
  if (own === undefined) return finalizers.length > 0 ? otherFinalizer('Node', node, finalizers) : undefined;
  const { name } = node.metadata;
  const moves = (known.objects.moves ?? []).filter(
    (move) => !isOver(move) && [move.status?.sourceNode, move.status?.targetNode].includes(name),
  );
  const held = moves.map(({ metadata, spec }) => `${metadata.namespace}/${spec.claimName}`);
  return {
    code: 'NodeLeaving',
    cause:
      held.length > 0
        ? `it is being deleted while the volume of claim ${listed(held)} moves`
        : "it is being deleted, and Moorage's controller releases its volumes first",
    evidence: finalizerEvidence('Node', node, own),
    remedy: held.length > 0 ? ['kubectl moorage moves -A --watch'] : [`kubectl moorage volumes -A --node ${name}`],
  };
}

/** Why a VolumeSnapshot that is being deleted is still there. */
export function snapshotDeletion(snapshot: Stored<VolumeSnapshot>, known: Known): Finding | undefined {
  const finalizers = finalizersOf(snapshot);
  if (finalizers.length === 0) return undefined;
  if (!finalizers.includes(theirs.restoreSource)) return otherFinalizer('VolumeSnapshot', snapshot, finalizers);
  const { namespace } = snapshot.metadata;
  const user = pendingCopy('VolumeSnapshot', snapshot, known);
  const evidence = finalizerEvidence('VolumeSnapshot', snapshot, theirs.restoreSource);
  if (!user) return { code: 'BeingRemoved', cause: 'it is being deleted', evidence };
  return {
    code: 'SnapshotInUse',
    cause: `it is being deleted, and claim ${user.metadata.name} is being created from it`,
    advice: 'it goes when the claim is bound or deleted',
    evidence,
    remedy: [`kubectl moorage why pvc/${user.metadata.name} -n ${namespace}`],
  };
}
