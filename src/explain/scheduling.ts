import { claimNamesOf, type Pod, type Stored } from '../kube/resource.ts';
import { unboundReason, waitsForPod } from './claim.ts';
import { claimDeletion } from './deletion.ts';
import { because, type Finding, listed } from './explanation.ts';
import { eventText, type Known } from './known.ts';
import { moveReason } from './move.ts';
import { nodeObstacles } from './node-obstacles.ts';
import { placementReason } from './placement.ts';
import { lastLackOfSpace } from './provisioning.ts';

type Waiting = Stored<Pod>;

/** Why a pod is not scheduled: its claims first, then its nodes, one by one. */
export function schedulingReason(pod: Waiting, known: Known): Finding {
  return (
    gated(pod, known) ??
    missingClaim(pod, known) ??
    stuckClaim(pod, known) ??
    usedByOther(pod, known) ??
    placementReason(pod, known) ??
    ofClaims(pod, known) ??
    schedulerSays(pod, known)
  );
}

function gated(pod: Waiting, known: Known): Finding | undefined {
  const names = (pod.spec?.schedulingGates ?? []).map(({ name }) => name);
  if (names.length === 0) return undefined;
  const [move] = known.volumesOf(pod).flatMap(({ claim }) => moveReason(claim, known) ?? []);
  if (move) return move;
  return {
    code: 'SchedulingGated',
    cause: `it has the scheduling gate ${listed(names)}, which another program removes`,
    evidence: [`pod ${pod.metadata.name}: spec.schedulingGates ${names.join(', ')}`],
  };
}

/** Nothing about the pod is decided before its claims exist. */
export function missingClaim(pod: Waiting, known: Known): Finding | undefined {
  const { namespace, name, ownerReferences = [] } = pod.metadata;
  if (known.objects.claims === undefined) return undefined;
  const missing = claimNamesOf(pod).find((claimName) => !known.claim(namespace, claimName));
  if (missing === undefined) return undefined;
  const set = ownerReferences.find(({ kind }) => kind === 'StatefulSet');
  const isTemplate = known
    .statefulSet(namespace, set?.name ?? '')
    ?.spec?.volumeClaimTemplates?.some(({ metadata }) => `${metadata?.name}-${name}` === missing);
  const evidence = [`pod ${name}: names claim ${missing}`, `there is no claim ${missing} in namespace ${namespace}`];
  const isOfSet = set !== undefined && isTemplate !== false;
  return {
    code: 'ClaimMissing',
    cause: `its claim ${missing} does not exist`,
    advice: isOfSet
      ? `delete the pod: StatefulSet ${set.name} then creates both`
      : 'create it, or correct the name in the pod',
    evidence,
    remedy: [isOfSet ? `kubectl delete pod ${name} -n ${namespace}` : `kubectl get pvc -n ${namespace}`],
  };
}

/** A volume that is being created may wait with the pod for the same node. */
function stuckClaim(pod: Waiting, known: Known): Finding | undefined {
  const found = ofClaims(pod, known);
  return found && found.code !== 'BeingCreated' ? found : undefined;
}

/** A claim that is going, moving, lost, or has no volume although it does not wait for the pod. */
function ofClaims(pod: Waiting, known: Known): Finding | undefined {
  for (const { claim } of known.volumesOf(pod)) {
    const { name } = claim.metadata;
    const deletion = claimDeletion(claim, known);
    if (deletion) {
      const cause = deletion.cause.replace(/^it is/, `its claim ${name} is`);
      return { ...deletion, code: 'ClaimBeingDeleted', cause };
    }
    const move = moveReason(claim, known);
    if (move) return move;
    const own = unboundReason(claim, known);
    if (own) return because(`its claim ${name} has no volume yet: `, own);
    if (
      claim.status?.phase === 'Pending' &&
      !claim.spec?.volumeName &&
      known.classOf(claim) &&
      !waitsForPod(claim, known)
    ) {
      return { code: 'BeingCreated', cause: `its claim ${name} has no volume yet` };
    }
  }
  return undefined;
}

function usedByOther(pod: Waiting, known: Known): Finding | undefined {
  for (const { claim } of known.volumesOf(pod)) {
    if (!claim.spec?.accessModes?.includes('ReadWriteOncePod')) continue;
    const other = known
      .usersOf(claim)
      .find(({ metadata, spec }) => metadata.name !== pod.metadata.name && spec?.nodeName);
    if (!other) continue;
    const { name, namespace } = other.metadata;
    return {
      code: 'VolumeInUse',
      cause: `only one pod at a time may use its claim ${claim.metadata.name}, and pod ${name} does`,
      advice: 'end that pod, or use the access mode ReadWriteOnce',
      evidence: [
        `claim ${claim.metadata.name}: access mode ReadWriteOncePod`,
        `pod ${name}: uses it on node ${other.spec?.nodeName}`,
      ],
      remedy: [`kubectl delete pod ${name} -n ${namespace}`],
    };
  }
  return undefined;
}

/** No obstacle was seen, or the nodes could not be read: what the scheduler itself says. */
function schedulerSays(pod: Waiting, known: Known): Finding {
  const condition = pod.status?.conditions?.find(({ type, status }) => type === 'PodScheduled' && status === 'False');
  const event = known.lastEvent(pod, ['FailedScheduling']);
  const said = condition?.message ?? event?.note ?? '';
  for (const { claim } of known.volumesOf(pod)) {
    const refused = claim.spec?.volumeName ? undefined : lastLackOfSpace(claim, known);
    if (refused) return { ...refused, cause: `${refused.cause}, and the scheduler chooses a node again` };
  }
  const evidence = [
    ...(condition?.message ? [`pod ${pod.metadata.name}: PodScheduled is False: ${condition.message}`] : []),
    ...(!condition?.message && event ? [eventText(event)] : []),
    ...noObstacle(pod, known),
  ];
  if (/exceed max volume count/.test(said)) {
    return {
      code: 'VolumeLimit',
      cause: 'no node may have more volumes of another driver',
      advice: 'add a node, or run fewer pods with such volumes',
      evidence,
    };
  }
  if (/no available volume zone/.test(said)) {
    return {
      code: 'ZoneLabel',
      cause: 'a PersistentVolume of its claims has a zone label that no node has',
      advice: 'remove the label topology.kubernetes.io/zone',
      evidence,
      remedy: known
        .volumesOf(pod)
        .flatMap(({ claim }) =>
          claim.spec?.volumeName ? [`kubectl label pv ${claim.spec.volumeName} topology.kubernetes.io/zone-`] : [],
        ),
    };
  }
  if (known.objects.nodes?.length === 0) {
    return { code: 'NoNodeLeft', cause: 'the cluster has no nodes', advice: 'add one', evidence };
  }
  const cause = said === '' ? 'the scheduler has not looked at it yet' : `the scheduler says: ${said}`;
  return {
    code: 'NotScheduled',
    cause,
    evidence,
    remedy: [`kubectl describe pod ${pod.metadata.name} -n ${pod.metadata.namespace}`],
  };
}

function noObstacle(pod: Waiting, known: Known): readonly string[] {
  const volumes = known.volumesOf(pod);
  const free = (known.objects.nodes ?? []).filter(
    (node) => nodeObstacles(pod, volumes, known.factsOf(node)).length === 0,
  );
  return free.length > 0 ? [`no obstacle seen on ${listed(free.map(({ metadata }) => metadata.name))}`] : [];
}
