import { failureOf, type StoredLogicalVolume } from '../api/logical-volume.ts';
import { driverName, selectedNodeAnnotation, topologyKey } from '../api/names.ts';
import type { Event } from '../kube/resource.ts';
import { because, type Finding } from './explanation.ts';
import { type Claim, eventText, type Known } from './known.ts';
import { agentOf, controllerPods, isSilent, notReady } from './nodes.ts';
import { classProblem } from './storage-class.ts';

/** gRPC's number for "no space", which a LogicalVolume reports. */
const resourceExhausted = 8;

/**
 * How far the volume of a claim is, once it is being created: on the node that the scheduler has selected, or at once.
 * Undefined before that.
 */
export function provisioningReason(claim: Claim, known: Known): Finding | undefined {
  const own = known.classOf(claim);
  if (!own || own.provisioner === 'kubernetes.io/no-provisioner') return undefined;
  const nodeName = claim.metadata.annotations?.[selectedNodeAnnotation];
  const isBegun = nodeName !== undefined || own.volumeBindingMode !== 'WaitForFirstConsumer';
  const problem = classProblem(own);
  if (problem?.code === 'TopologyUnusable') return because(`StorageClass ${own.metadata.name} cannot work: `, problem);
  if (!isBegun) return undefined;
  const volume = known.logicalVolumeOf(claim);
  const failure = known.lastEvent(claim, ['ProvisioningFailed']);
  if (volume) return ofVolume(volume, failure, known);
  if (failure) return refusal(claim, failure, nodeName, known);
  const waiting = known.lastEvent(claim, ['ExternalProvisioning']);
  const isSilentForLong = waiting && (waiting.series?.count ?? waiting.deprecatedCount ?? 1) > 1;
  if (isSilentForLong && !known.lastEvent(claim, ['Provisioning', 'ProvisioningSucceeded'])) {
    return silent(own.provisioner, waiting);
  }
  const place = nodeName === undefined ? '' : ` on node ${nodeName}`;
  return { code: 'BeingCreated', cause: `its volume is being created${place}`, evidence: evidenceOf(claim, waiting) };
}

/** The refusal for lack of space after which the scheduler chooses again. */
export function lastLackOfSpace(claim: Claim, known: Known): Finding | undefined {
  const failure = known.lastEvent(claim, ['ProvisioningFailed'], /code = ResourceExhausted/);
  return failure && refusal(claim, failure, claim.metadata.annotations?.[selectedNodeAnnotation], known);
}

function silent(provisioner: string, waiting: Event): Finding {
  const isOurs = provisioner === driverName;
  return {
    code: 'ProvisionerSilent',
    cause: `the provisioner ${provisioner} does not act on it`,
    advice: isOurs
      ? "see whether the pods of Moorage's controller run, and what their container csi-provisioner logs"
      : 'see whether it runs',
    evidence: [eventText(waiting), 'there is no Event Provisioning'],
    remedy: isOurs ? [controllerPods, 'kubectl get leases -A | grep topolvm'] : ['kubectl get csidrivers'],
  };
}

/** The controller has requested the volume from the node. */
function ofVolume(volume: StoredLogicalVolume, event: Event | undefined, known: Known): Finding {
  const { nodeName, source } = volume.spec;
  const evidence = [
    `LogicalVolume ${volume.metadata.name}: on node ${nodeName}, ${volume.status?.volumeID ? 'created' : 'not created yet'}`,
    ...(event ? [eventText(event)] : []),
  ];
  const failure = failureOf(volume);
  if (failure) {
    const isFull = failure.code === resourceExhausted;
    return {
      code: isFull ? 'NoRoomOnNode' : 'RequestRefused',
      cause: `node ${nodeName} ${isFull ? 'has no room for it' : 'refused it'}: ${failure.message}`,
      evidence,
      remedy: isFull ? ['kubectl moorage nodes'] : [],
    };
  }
  const node = known.node(nodeName);
  const isLate = /code = (DeadlineExceeded|Unavailable)/.test(event?.note ?? '');
  if (!volume.status?.volumeID && ((node && isSilent(node)) || isLate)) return nodeSilent(nodeName, evidence, known);
  if (!volume.status?.volumeID && source) {
    return { code: 'BeingCopied', cause: `its data is being copied on node ${nodeName}`, evidence };
  }
  return { code: 'BeingCreated', cause: `its volume is being created on node ${nodeName}`, evidence };
}

function nodeSilent(nodeName: string, evidence: readonly string[], known: Known): Finding {
  const node = known.node(nodeName);
  return {
    code: 'NodeSilent',
    cause: `node ${nodeName} does not answer${node && isSilent(node) ? `: ${notReady(node)}` : ''}`,
    advice: 'start the node or its agent: the volume is created when it answers',
    evidence,
    remedy: [`kubectl get node ${nodeName}`, agentOf(nodeName)],
  };
}

/** csi-provisioner says why. */
function refusal(claim: Claim, event: Event, nodeName: string | undefined, known: Known): Finding {
  const { note = '' } = event;
  const { name, namespace } = claim.metadata;
  const evidence = evidenceOf(claim, event);
  const again =
    nodeName === undefined
      ? []
      : [`kubectl annotate pvc ${name} -n ${namespace} ${selectedNodeAnnotation}- # choose a node again`];
  const [, code, description] = /rpc error: code = (\w+) desc = (.*)/s.exec(note) ?? [];
  const message = (
    description ?? note.replace(/^.*failed to provision volume with StorageClass "[^"]*": /s, '')
  ).trim();
  const [, bare] = /(?:no topology key found on CSINode|CSINode for selected node) "?([^"\s]+)/.exec(note) ?? [];
  if (bare) {
    return {
      code: 'DriverMissing',
      cause: `Moorage does not run on node ${bare}, which the scheduler has selected`,
      advice: 'start its agent there, or let the scheduler choose again',
      evidence,
      remedy: [agentOf(bare), ...again],
    };
  }
  if (/not in allowed topologies/.test(note)) {
    return {
      code: 'TopologyUnusable',
      cause: `allowedTopologies of StorageClass ${claim.spec?.storageClassName} leaves out node ${nodeName}, which the scheduler has selected`,
      advice: `use the key ${topologyKey} with names of nodes`,
      evidence,
      remedy: [`kubectl get storageclass ${claim.spec?.storageClassName} -o yaml`, ...again],
    };
  }
  if (/zone\[s\] cannot be specified/.test(note)) {
    return {
      code: 'ZoneParameter',
      cause: `StorageClass ${claim.spec?.storageClassName} has the parameter zone, which is not allowed with WaitForFirstConsumer`,
      advice: `remove it, and set nodeSelector topology.kubernetes.io/zone in the pods`,
      evidence,
      remedy: [`kubectl get storageclass ${claim.spec?.storageClassName} -o yaml`],
    };
  }
  const [, elsewhere] = /is on node ([^\s,;]+)/.exec(message) ?? [];
  if (elsewhere && claim.spec?.dataSource) {
    const { kind, name: source } = claim.spec.dataSource;
    return {
      code: 'SourceElsewhere',
      cause: `its source, ${kind} ${source}, is on node ${elsewhere}, and its pod cannot run there`,
      advice: 'a copy is on the node of its source',
      evidence,
      remedy: [`kubectl get node ${elsewhere}`],
    };
  }
  if (claim.spec?.dataSource && code === undefined) {
    const { kind, name: source } = claim.spec.dataSource;
    return {
      code: 'SourceNotReady',
      cause: `its source, ${kind} ${source}, cannot be copied: ${message.replace(/^error getting handle for DataSource Type \S+ by Name \S+: /, '')}`,
      advice: 'the copy begins when the source is ready',
      evidence,
      remedy: [`kubectl moorage why ${kind === 'VolumeSnapshot' ? 'volumesnapshot' : 'pvc'}/${source} -n ${namespace}`],
    };
  }
  if (code === 'ResourceExhausted') {
    return {
      code: 'NoRoomOnNode',
      cause: message,
      evidence,
      remedy: ['kubectl moorage nodes'],
    };
  }
  if (code === 'DeadlineExceeded' || code === 'Unavailable') {
    return nodeName === undefined
      ? { code: 'NodeSilent', cause: `no node answers: ${message}`, evidence }
      : nodeSilent(nodeName, evidence, known);
  }
  return { code: 'RequestRefused', cause: `it is refused: ${message}`, evidence, remedy: again };
}

function evidenceOf({ metadata }: Claim, event: Event | undefined): readonly string[] {
  const nodeName = metadata.annotations?.[selectedNodeAnnotation];
  return [
    ...(nodeName === undefined ? [] : [`claim ${metadata.name}: the scheduler has selected node ${nodeName}`]),
    ...(event ? [eventText(event)] : []),
  ];
}
