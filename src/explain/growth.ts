import { growthFailureOf } from '../api/logical-volume.ts';
import { parseQuantity } from '../base/quantity.ts';
import type { Stored, VolumeSnapshot } from '../kube/resource.ts';
import { type Finding, rpcMessage } from './explanation.ts';
import { type Claim, eventText, type Known } from './known.ts';

/** Why a bound claim is smaller than it requests. */
export function growthReason(claim: Claim, known: Known): Finding | undefined {
  const { name, namespace } = claim.metadata;
  const requested = claim.spec?.resources?.requests?.['storage'];
  const has = claim.status?.capacity?.['storage'];
  if (!requested || !has || parseQuantity(requested) <= parseQuantity(has)) return undefined;
  const volume = known.logicalVolumeOf(claim);
  const failure = volume && growthFailureOf(volume);
  const conditions = (claim.status?.conditions ?? []).filter(({ status }) => status === 'True');
  const error = conditions.find(({ type }) => type === 'ControllerResizeError' || type === 'NodeResizeError');
  const event = known.lastEvent(claim, ['VolumeResizeFailed', 'FileSystemResizeFailed']);
  const message = failure?.message ?? error?.message ?? event?.note;
  const evidence = [
    `claim ${name}: requests ${requested}, has ${has}`,
    ...conditions.map(({ type, message: text }) => `claim ${name}: ${type}${text ? `: ${text}` : ''}`),
    ...(event ? [eventText(event)] : []),
  ];
  if (message) {
    return {
      code: 'GrowthFailed',
      cause: `it cannot grow to ${requested}${volume ? ` on node ${volume.spec.nodeName}` : ''}: ${rpcMessage(message)}`,
      advice: `free space, or request less, but more than ${has}`,
      evidence,
      remedy: [
        'kubectl moorage nodes',
        `kubectl patch pvc ${name} -n ${namespace} -p '{"spec":{"resources":{"requests":{"storage":"SIZE"}}}}'`,
      ],
    };
  }
  const isPending = conditions.some(({ type }) => type === 'FileSystemResizePending');
  if (isPending && known.objects.pods !== undefined && known.usersOf(claim).length === 0) {
    return {
      code: 'GrowthNeedsPod',
      cause: `its volume has ${requested}, and its filesystem grows when a pod uses it`,
      evidence,
    };
  }
  return { code: 'Growing', cause: `it grows from ${has} to ${requested}`, evidence };
}

/** Why a VolumeSnapshot cannot be used yet. */
export function snapshotReason(snapshot: Stored<VolumeSnapshot>, known: Known): Finding | undefined {
  const { status, spec, metadata } = snapshot;
  if (status?.readyToUse) return undefined;
  const message = status?.error?.message;
  const evidence = [`VolumeSnapshot ${metadata.name}: readyToUse is ${status?.readyToUse ?? 'not set'}`];
  if (message) {
    return {
      code: 'SnapshotFailed',
      cause: `it cannot be created: ${rpcMessage(message)}`,
      evidence: [...evidence, `VolumeSnapshot ${metadata.name}: status.error: ${message}`],
      remedy: spec?.volumeSnapshotClassName
        ? [`kubectl get volumesnapshotclass ${spec.volumeSnapshotClassName} -o yaml`]
        : ['kubectl get volumesnapshotclasses'],
    };
  }
  const events = known.objects.events && known.eventsOf(snapshot);
  if (!status?.boundVolumeSnapshotContentName && events?.length === 0) {
    return {
      code: 'SnapshotControllerMissing',
      cause: 'nothing acts on it: the cluster has no snapshot-controller, or it does not run',
      advice: 'install it: it is not part of Moorage',
      evidence: [...evidence, 'it has neither a VolumeSnapshotContent nor an Event'],
      remedy: ['kubectl get pods -A | grep snapshot-controller'],
    };
  }
  return {
    code: 'SnapshotBeingCreated',
    cause: 'it is being created',
    evidence: [...evidence, ...(events ?? []).slice(-1).map(eventText)],
  };
}
