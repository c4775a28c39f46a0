import { driverName, filesystemErrorAnnotation, selectedNodeAnnotation } from '../api/names.ts';
import type { Pod, StorageClass, Stored } from '../kube/resource.ts';
import { unboundReason } from './claim.ts';
import { because, type Finding, rpcMessage } from './explanation.ts';
import { type Claim, eventText, type Known } from './known.ts';
import { moveReason } from './move.ts';
import { agentOf, isSilent, notReady } from './nodes.ts';
import { missingClaim } from './scheduling.ts';

/** Why a pod that has a node does not run yet. */
export function startingReason(pod: Stored<Pod>, known: Known): Finding {
  return (
    missingClaim(pod, known) ??
    ofClaims(pod, known) ??
    silentNode(pod, known) ??
    ofMount(pod, known) ??
    starting(pod, known)
  );
}

function ofClaims(pod: Stored<Pod>, known: Known): Finding | undefined {
  const { nodeName } = pod.spec ?? {};
  for (const { claim, storageClass } of known.volumesOf(pod)) {
    const claimName = claim.metadata.name;
    const move = moveReason(claim, known);
    if (move) return move;
    if (claim.status?.phase === 'Bound') continue;
    if (needsScheduler(claim, storageClass)) return bypassed(pod, claimName, 'it');
    const own = unboundReason(claim, known);
    return own
      ? because(`its claim ${claimName} has no volume: `, own)
      : { code: 'BeingCreated', cause: `its claim ${claimName} has no volume on node ${nodeName} yet` };
  }
  return undefined;
}

/** Whether the claim gets no volume before the scheduler has chosen a node. */
function needsScheduler({ metadata, spec, status }: Claim, storageClass: StorageClass | undefined): boolean {
  const isUnscheduled = metadata.annotations?.[selectedNodeAnnotation] === undefined;
  const isWaiting = status?.phase !== 'Bound' && !spec?.volumeName && isUnscheduled;
  return isWaiting && storageClass?.volumeBindingMode === 'WaitForFirstConsumer';
}

/** Why a pod that is not created yet would wait for ever because of `spec.nodeName`. */
export function wouldBypass(pod: Stored<Pod>, known: Known): Finding | undefined {
  const { nodeName } = pod.spec ?? {};
  if (!nodeName) return undefined;
  const waiting = known.volumesOf(pod).find(({ claim, storageClass }) => needsScheduler(claim, storageClass));
  if (!waiting) return undefined;
  const { name } = waiting.claim.metadata;
  const cause = `its nodeName ${nodeName} bypasses the scheduler, so no volume would be created for claim ${name}`;
  return { ...bypassed(pod, name), cause, remedy: [] };
}

/** A pod with `spec.nodeName` in its manifest never meets the scheduler, which alone tells the claim where its volume goes. */
export function bypassed(pod: Stored<Pod>, claimName: string, subject = `pod ${pod.metadata.name}`): Finding {
  const { name, namespace } = pod.metadata;
  const { nodeName } = pod.spec ?? {};
  return {
    code: 'SchedulerBypassed',
    cause: `${subject} was created with nodeName ${nodeName} and bypassed the scheduler, so no volume is created for claim ${claimName}`,
    advice: `replace nodeName in the pod with nodeSelector kubernetes.io/hostname: ${nodeName}`,
    evidence: [
      `pod ${name}: has node ${nodeName}`,
      `claim ${claimName}: waits for the first consumer, and has no annotation ${selectedNodeAnnotation}`,
    ],
    remedy: [`kubectl delete pod ${name} -n ${namespace} # then create it with the nodeSelector`],
  };
}

/** Its node is not ready. The API server shows a pod that ran there as Running, whatever has become of it. */
export function silentNode({ spec }: Stored<Pod>, known: Known): Finding | undefined {
  const node = known.node(spec?.nodeName ?? '');
  if (!node || !isSilent(node)) return undefined;
  const { name } = node.metadata;
  return {
    code: 'NodeNotReady',
    cause: `it is on node ${name}, and ${notReady(node)}`,
    advice: `start node ${name}`,
    evidence: [`Node ${name}: ${notReady(node)}`],
    remedy: [`kubectl describe node ${name}`],
  };
}

/** What the kubelet reports about mounting, and what it would report only after minutes. */
function ofMount(pod: Stored<Pod>, known: Known): Finding | undefined {
  const nodeName = pod.spec?.nodeName ?? '';
  for (const { claim, persistentVolume } of known.volumesOf(pod)) {
    const isDriverThere = known.objects.csiDrivers?.some(({ metadata }) => metadata.name === driverName);
    if (persistentVolume?.spec?.csi?.driver === driverName && isDriverThere === false) {
      return driverMissing([`there is no CSIDriver ${driverName}`]);
    }
    const volume = known.logicalVolumeOf(claim);
    const error = volume?.metadata.annotations?.[filesystemErrorAnnotation];
    if (volume?.status?.missingFrom) {
      return {
        code: 'VolumeLost',
        cause: `node ${nodeName} no longer has the volume of its claim ${claim.metadata.name} on its disks`,
        advice: 'bring the disks back, or give the data up and restore a backup',
        evidence: [`LogicalVolume ${volume.metadata.name}: status.missingFrom is set`],
        remedy: [`kubectl moorage volume pvc/${claim.metadata.name} -n ${claim.metadata.namespace}`],
      };
    }
    if (error) {
      return {
        code: 'MountFailed',
        cause: `the volume of its claim ${claim.metadata.name} cannot be mounted: ${error}`,
        evidence: [`LogicalVolume ${volume.metadata.name}: ${filesystemErrorAnnotation} is set`],
      };
    }
  }
  const changing = known.lastEvent(pod, ['VolumePermissionChangeInProgress']);
  const failed = known.lastEvent(pod, ['FailedMount', 'FailedAttachVolume', 'FailedMapVolume']);
  if (failed) {
    const evidence = [eventText(failed)];
    const note = failed.note ?? '';
    if (/not found in the list of registered CSI drivers/.test(note)) {
      const [, driver = driverName] = /driver name (\S+) not found/.exec(note) ?? [];
      const isOurs = driver === driverName;
      return {
        code: 'DriverNotRegistered',
        cause: `${isOurs ? 'Moorage' : `the driver ${driver}`} does not run on node ${nodeName}`,
        advice: isOurs ? 'start its agent there' : 'start it there',
        evidence,
        remedy: isOurs ? [agentOf(nodeName)] : [`kubectl get csinode ${nodeName} -o yaml`],
      };
    }
    if (failed.reason === 'FailedAttachVolume' && /external-attacher/.test(note)) return driverMissing(evidence);
    return {
      code: 'MountFailed',
      cause: `its volume cannot be mounted on node ${nodeName}: ${rpcMessage(note.replace(/^\w+\.\w+ failed for volume "[^"]*" : /, ''))}`,
      evidence,
      remedy: [agentOf(nodeName)],
    };
  }
  if (!changing) return undefined;
  return {
    code: 'PermissionsChanging',
    cause: 'the kubelet changes the owner of every file of its volume',
    advice: 'fsGroupChangePolicy: OnRootMismatch in the securityContext of the pod avoids this',
    evidence: [eventText(changing)],
  };
}

function driverMissing(evidence: readonly string[]): Finding {
  return {
    code: 'CsiDriverMissing',
    cause: `the CSIDriver ${driverName} does not exist, so Kubernetes waits for an attacher that Moorage does not have`,
    advice: "create it again from Moorage's chart",
    evidence,
    remedy: ['helm upgrade --reuse-values moorage <chart>', `kubectl get csidriver ${driverName}`],
  };
}

function starting({ metadata, spec, status }: Stored<Pod>, known: Known): Finding {
  const waiting = [...(status?.initContainerStatuses ?? []), ...(status?.containerStatuses ?? [])].find(
    ({ state }) => state?.waiting?.reason !== undefined && state.waiting.reason !== 'PodInitializing',
  );
  const { reason, message } = waiting?.state?.waiting ?? {};
  const isMounted = waiting && reason !== 'ContainerCreating';
  const volumes =
    known.volumesOf({ metadata, ...(spec && { spec }) }).length === 0
      ? 'it has no claims'
      : 'its claims have their volumes';
  return {
    code: 'Starting',
    cause: isMounted
      ? `container ${waiting.name} does not start: ${reason}${message ? `: ${message}` : ''} (${volumes})`
      : `it starts on node ${spec?.nodeName} (${volumes})`,
    evidence: [`pod ${metadata.name}: phase ${status?.phase} on node ${spec?.nodeName}`],
    remedy: [`kubectl describe pod ${metadata.name} -n ${metadata.namespace}`],
  };
}
