import { failureOf, type StoredLogicalVolume } from '../api/logical-volume.ts';
import { crossNodeAllowed, driverName, parameters, selectedNodeAnnotation, topologyKey } from '../api/names.ts';
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
  const nodeName = selectedNodeOf(claim);
  const isBegun = nodeName !== undefined || own.volumeBindingMode !== 'WaitForFirstConsumer';
  const problem = classProblem(own);
  if (problem?.code === 'TopologyUnusable') return because(`StorageClass ${own.metadata.name} cannot work: `, problem);
  if (!isBegun) return undefined;
  const volume = known.logicalVolumeOf(claim);
  const failure = known.lastEvent(claim, ['ProvisioningFailed']);
  if (volume) return ofVolume(volume, failure, known);
  if (failure) return refusal(claim, failure, known);
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
  return failure && refusal(claim, failure, known);
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

/** What csi-provisioner says about a claim that it could not provision. */
interface Refusal {
  readonly claim: Claim;
  readonly note: string;
  /** gRPC's, if Moorage has refused it. */
  readonly code: string | undefined;
  /** Without what csi-provisioner writes before it. */
  readonly message: string;
  readonly nodeName: string | undefined;
  readonly evidence: readonly string[];
  /** The command that lets the scheduler choose again: csi-provisioner keeps its choice, except if there is no room. */
  readonly again: readonly string[];
  readonly known: Known;
}

function refusal(claim: Claim, event: Event, known: Known): Finding {
  const { note = '' } = event;
  const { name, namespace } = claim.metadata;
  const nodeName = selectedNodeOf(claim);
  const [, code, description] = /rpc error: code = (\w+) desc = (.*)/s.exec(note) ?? [];
  const bare = note.replace(/^.*failed to provision volume with StorageClass "[^"]*": /s, '');
  const refused: Refusal = {
    claim,
    note,
    code,
    message: (description ?? bare).trim(),
    nodeName,
    evidence: evidenceOf(claim, event),
    again:
      nodeName === undefined
        ? []
        : [`kubectl annotate pvc ${name} -n ${namespace} ${selectedNodeAnnotation}- # choose a node again`],
    known,
  };
  for (const explain of refusals) {
    const found = explain(refused);
    if (found) return { evidence: refused.evidence, ...found };
  }
  return {
    code: 'RequestRefused',
    cause: `it is refused: ${refused.message}`,
    evidence: refused.evidence,
    remedy: refused.again,
  };
}

/** Most specific first. */
const refusals: readonly ((refused: Refusal) => Finding | undefined)[] = [
  driverMissing,
  topologyLeftOut,
  zoneParameter,
  sourceElsewhere,
  sourceNotReady,
  accessMode,
  ({ code, message: cause }) =>
    code === 'ResourceExhausted' ? { code: 'NoRoomOnNode', cause, remedy: ['kubectl moorage nodes'] } : undefined,
  noAnswer,
];

function driverMissing({ note, again }: Refusal): Finding | undefined {
  const [, node] = /(?:no topology key found on CSINode|CSINode for selected node) "?([^"\s]+)/.exec(note) ?? [];
  return node === undefined
    ? undefined
    : {
        code: 'DriverMissing',
        cause: `Moorage does not run on node ${node}, which the scheduler has selected`,
        advice: 'start its agent there, or let the scheduler choose again',
        remedy: [agentOf(node), ...again],
      };
}

function topologyLeftOut({ note, claim: { spec }, nodeName, again }: Refusal): Finding | undefined {
  if (!/not in allowed topologies/.test(note)) return undefined;
  return {
    code: 'TopologyUnusable',
    cause: `allowedTopologies of StorageClass ${spec?.storageClassName} leaves out node ${nodeName}, which the scheduler has selected`,
    advice: `use the key ${topologyKey} with names of nodes`,
    remedy: [`kubectl get storageclass ${spec?.storageClassName} -o yaml`, ...again],
  };
}

/** By in-tree provisioners; Moorage refuses such a class when it is created. */
function zoneParameter({ note, claim: { spec } }: Refusal): Finding | undefined {
  if (!/zone\[s\] cannot be specified/.test(note)) return undefined;
  return {
    code: 'ZoneParameter',
    cause: `StorageClass ${spec?.storageClassName} has the parameter zone, which is not allowed with WaitForFirstConsumer`,
    advice: 'remove it, and set nodeSelector topology.kubernetes.io/zone in the pods',
    remedy: [`kubectl get storageclass ${spec?.storageClassName} -o yaml`],
  };
}

const sourceOnNode = /is on node ([^\s,;]+), so its copy cannot be/;

function sourceElsewhere({ message, claim }: Refusal): Finding | undefined {
  const [, node] = sourceOnNode.exec(message) ?? [];
  const source = claim.spec?.dataSource;
  if (node === undefined || !source) return undefined;
  return {
    code: 'SourceElsewhere',
    cause: `its source, ${source.kind} ${source.name}, is on node ${node}, and a copy is on the node of its source`,
    ...copyElsewhere(claim, node),
  };
}

/** Whether a copy was sent to the node of its source a short time ago, as an Event says. Later it is a volume like any other. */
export function wasSentToSource(claim: Claim, known: Known): boolean {
  return known.lastEvent(claim, ['ProvisioningFailed'], sourceOnNode) !== undefined;
}

/** What to do if the pod of a copy cannot run on the node of the source. */
export function copyElsewhere({ metadata }: Claim, nodeName: string): Pick<Finding, 'advice' | 'remedy'> {
  const { name, namespace } = metadata;
  const allowed = `the annotation ${parameters.crossNode}: ${crossNodeAllowed}`;
  return {
    advice: `let its pod run on ${nodeName}, or create the claim again with ${allowed}`,
    remedy: [
      `kubectl get node ${nodeName} --show-labels`,
      `kubectl get pvc ${name} -n ${namespace} -o yaml # create it again with ${allowed}`,
    ],
  };
}

function sourceNotReady({ code, message, claim: { metadata, spec } }: Refusal): Finding | undefined {
  if (!spec?.dataSource || code !== undefined) return undefined;
  const { kind, name } = spec.dataSource;
  const why = message.replace(/^error getting handle for DataSource Type \S+ by Name \S+: /, '');
  return {
    code: 'SourceNotReady',
    cause: `its source, ${kind} ${name}, cannot be copied: ${why}`,
    advice: 'the copy begins when the source is ready',
    remedy: [
      `kubectl moorage why ${kind === 'VolumeSnapshot' ? 'volumesnapshot' : 'pvc'}/${name} -n ${metadata.namespace}`,
    ],
  };
}

/** CSI has other names for the access modes. */
function accessMode({ message, claim: { metadata, spec } }: Refusal): Finding | undefined {
  if (!/access_mode \w+ is not supported/.test(message)) return undefined;
  const wanted = 'ReadWriteOnce or ReadWriteOncePod';
  return {
    code: 'RequestRefused',
    cause: `a local volume cannot have the access mode ${spec?.accessModes?.join(', ')}`,
    advice: `create the claim again with ${wanted}`,
    remedy: [`kubectl get pvc ${metadata.name} -n ${metadata.namespace} -o yaml # create it again with ${wanted}`],
  };
}

function noAnswer({ code, message, nodeName, evidence, known }: Refusal): Finding | undefined {
  if (code !== 'DeadlineExceeded' && code !== 'Unavailable') return undefined;
  return nodeName === undefined
    ? { code: 'NodeSilent', cause: `no node answers: ${message}` }
    : nodeSilent(nodeName, evidence, known);
}

/** The node that the scheduler has chosen for the volume of a claim. */
export function selectedNodeOf({ metadata }: Claim): string | undefined {
  return metadata.annotations?.[selectedNodeAnnotation];
}

function evidenceOf(claim: Claim, event: Event | undefined): readonly string[] {
  const nodeName = selectedNodeOf(claim);
  return [
    ...(nodeName === undefined ? [] : [`claim ${claim.metadata.name}: the scheduler has selected node ${nodeName}`]),
    ...(event ? [eventText(event)] : []),
  ];
}
