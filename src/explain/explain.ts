import { localPvAnnotations } from '../api/local-pv.ts';
import type { StoredLogicalVolume } from '../api/logical-volume.ts';
import type { Node, PersistentVolume, Pod, StatefulSet, Stored, VolumeSnapshot } from '../kube/resource.ts';
import { unboundReason, waitsForPod } from './claim.ts';
import { claimDeletion, logicalVolumeDeletion, nodeDeletion, snapshotDeletion, volumeDeletion } from './deletion.ts';
import { because, type Explanation, explanation, type Finding } from './explanation.ts';
import { growthReason, snapshotReason } from './growth.ts';
import type { Claim, Known } from './known.ts';
import { moveReason } from './move.ts';
import { isSilent, notReady } from './nodes.ts';
import { bypassed, silentNode, startingReason } from './on-node.ts';
import { policyReason } from './policies.ts';
import { schedulingReason } from './scheduling.ts';
import { missingPodReason, setState } from './stateful-set.ts';

/** Why a claim waits; `Fine` if it does not. Most specific first: what ends it, what moves it, its volume, its pods, its size, its policies. */
export function explainClaim(claim: Claim, known: Known): Explanation {
  const finding =
    claimDeletion(claim, known) ??
    moveReason(claim, known) ??
    unboundReason(claim, known) ??
    (claim.status?.phase === 'Bound' ? undefined : consumerReason(claim, known)) ??
    growthReason(claim, known) ??
    stuckPod(claim, known) ??
    policyReason(claim) ??
    boundFine(claim, known);
  return explanation(`claim ${claim.metadata.name}`, finding);
}

/** The claim has no volume because of its pods, or because it has none. */
function consumerReason(claim: Claim, known: Known): Finding {
  const { name } = claim.metadata;
  if (!waitsForPod(claim, known)) {
    const unknown = known.objects.storageClasses === undefined ? ', and its StorageClass could not be read' : '';
    return { code: 'BeingCreated', cause: `its volume is not created yet${unknown}` };
  }
  const className = known.classOf(claim)?.metadata.name;
  const evidence = [`StorageClass ${className}: volumeBindingMode WaitForFirstConsumer`];
  if (known.objects.pods === undefined) {
    return {
      code: 'WaitsForPod',
      cause: 'its volume is created when a pod uses it, and pods could not be read',
      evidence,
    };
  }
  const [pod] = known.usersOf(claim);
  if (!pod) {
    const cause = 'its volume is created when a pod uses it, and none does; this is normal';
    return { code: 'WaitsForPod', cause, evidence: [...evidence, `no pod names claim ${name}`] };
  }
  if (pod.spec?.nodeName) return bypassed(pod, name);
  return because(`pod ${pod.metadata.name} is not scheduled: `, schedulingReason(pod, known));
}

/** The volume exists, and a pod that uses it does not run, or nobody knows whether it does. */
function stuckPod(claim: Claim, known: Known): Finding | undefined {
  const users = known.usersOf(claim);
  const pod = users.find(({ status }) => status?.phase === 'Pending') ?? users.find((user) => silentNode(user, known));
  const own = pod && podReason(pod, known);
  return own && because(`pod ${pod.metadata.name} is ${stateOf(pod)}: `, own);
}

function stateOf({ spec, status }: Stored<Pod>): string {
  if (!spec?.nodeName) return 'not scheduled';
  return status?.phase === 'Pending' ? 'not running' : 'not ready';
}

function boundFine(claim: Claim, known: Known): Finding {
  const asStatic = known.persistentVolume(claim.spec?.volumeName ?? '')?.metadata.annotations?.[
    localPvAnnotations.node
  ];
  const node = known.logicalVolumeOf(claim)?.spec.nodeName ?? asStatic;
  const place = node ? ` on node ${node}` : '';
  const users = known.usersOf(claim).map(({ metadata }) => metadata.name);
  const used =
    known.objects.pods === undefined
      ? ''
      : users.length > 0
        ? `, used by pod ${users.join(', ')}`
        : ', and no pod uses it';
  return {
    code: 'Fine',
    cause: `is fine: its volume has ${claim.status?.capacity?.['storage'] ?? 'its size'}${place}${used}`,
    evidence: [`claim ${claim.metadata.name}: phase ${claim.status?.phase}`],
  };
}

/** Why a pod does not run, as far as its volumes and its place decide; `Fine` if it runs. */
export function explainPod(pod: Stored<Pod>, known: Known): Explanation {
  return explanation(`pod ${pod.metadata.name}`, podReason(pod, known) ?? podFine(pod, known));
}

function podReason(pod: Stored<Pod>, known: Known): Finding | undefined {
  const { phase } = pod.status ?? {};
  if (phase !== 'Pending') return phase === 'Running' ? silentNode(pod, known) : undefined;
  return pod.spec?.nodeName ? startingReason(pod, known) : schedulingReason(pod, known);
}

function podFine(pod: Stored<Pod>, known: Known): Finding {
  for (const { claim } of known.volumesOf(pod)) {
    const own = moveReason(claim, known) ?? growthReason(claim, known);
    if (own) return because(`it runs, and its claim ${claim.metadata.name} waits: `, own);
  }
  const { phase } = pod.status ?? {};
  for (const { claim } of phase === 'Running' ? known.volumesOf(pod) : []) {
    const invalid = policyReason(claim);
    if (invalid) return { ...invalid, verb: `runs, but its claim ${claim.metadata.name} ${invalid.verb}` };
  }
  const verb = phase === 'Running' ? `runs on node ${pod.spec?.nodeName}` : `has the phase ${phase}`;
  const count = known.volumesOf(pod).length;
  const volumes =
    count === 0
      ? 'it uses no claims'
      : `its ${count === 1 ? 'claim has its volume' : `${count} claims have their volumes`}`;
  return { code: 'Fine', cause: `${verb}, and ${volumes}`, evidence: [`pod ${pod.metadata.name}: phase ${phase}`] };
}

export function explainVolume(pv: Stored<PersistentVolume>, known: Known): Explanation {
  const owner = pv.spec?.claimRef;
  const fine: Finding = {
    code: 'Fine',
    cause: owner
      ? `is fine: it belongs to claim ${owner.namespace}/${owner.name}`
      : 'is fine: it is available to a claim',
    evidence: [`PersistentVolume ${pv.metadata.name}: phase ${pv.status?.phase}`],
  };
  return explanation(`PersistentVolume ${pv.metadata.name}`, volumeDeletion(pv, known) ?? fine);
}

export function explainLogicalVolume(volume: StoredLogicalVolume, known: Known): Explanation {
  const fine: Finding = { code: 'Fine', cause: `is fine: it is on node ${volume.spec.nodeName}` };
  return explanation(`LogicalVolume ${volume.metadata.name}`, logicalVolumeDeletion(volume, known) ?? fine);
}

export function explainNode(node: Stored<Node>, known: Known): Explanation {
  const { name } = node.metadata;
  const silent: Finding = {
    code: 'NodeNotReady',
    cause: notReady(node),
    advice: `start node ${name}`,
    evidence: [`Node ${name}: ${notReady(node)}`],
    remedy: [`kubectl describe node ${name}`],
  };
  const fine: Finding = {
    code: 'Fine',
    cause: `is fine: it is Ready, and is not being deleted; to see its volumes: kubectl moorage volumes -A --node ${name}`,
  };
  return explanation(`node ${name}`, nodeDeletion(node, known) ?? (isSilent(node) ? silent : fine));
}

export function explainSnapshot(snapshot: Stored<VolumeSnapshot>, known: Known): Explanation {
  const finding = snapshotDeletion(snapshot, known) ?? snapshotReason(snapshot, known);
  const fine: Finding = { code: 'Fine', cause: 'is ready to use' };
  return explanation(`VolumeSnapshot ${snapshot.metadata.name}`, finding ?? fine);
}

/** The first of its pods that does not exist or run. */
export function explainStatefulSet(set: Stored<StatefulSet>, known: Known): Explanation {
  const subject = `StatefulSet ${set.metadata.name}`;
  const state = setState(set, known);
  if (state.kind === 'missing')
    return explanation(subject, because(`pod ${state.podName} does not exist: `, state.finding));
  if (state.kind === 'complete') {
    return explanation(subject, { code: 'Fine', cause: 'is fine: all of its pods are ready' });
  }
  const { pod } = state;
  const own = podReason(pod, known) ?? startingReason(pod, known);
  return explanation(
    subject,
    because(`pod ${pod.metadata.name} is ${pod.spec?.nodeName ? 'not ready' : 'not scheduled'}: `, own),
  );
}

/** Why a pod that a StatefulSet must have does not exist. */
export function explainMissingPod(set: Stored<StatefulSet>, podName: string, known: Known): Explanation | undefined {
  const finding = missingPodReason(set, podName, known);
  return finding && explanation(`pod ${podName}`, finding);
}
