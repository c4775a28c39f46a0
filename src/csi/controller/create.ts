import { claimParameters, crossNodeAllowed, luks2, parameters } from '../../api/names.ts';
import { InvalidInput, MoorageError } from '../../base/errors.ts';
import { formatBytes } from '../../base/quantity.ts';
import { luksHeaderBytes } from '../../engine/luks-device.ts';
import type { CapacityRange, CreateVolumeRequest, VolumeContentSource } from '../../rpc/gen/csi/v1/csi_pb.ts';
import { refuseUnknownParameters } from '../class-parameters.ts';
import { parseIoLimits, sidecarsForLimits } from '../io-limits.ts';
import { required } from '../required.ts';
import { isEncryptionRequested, type VolumeUse } from '../volume-use.ts';
import { candidateNodes, chooseNodes } from './placement.ts';
import type {
  Claims,
  ContentSource,
  NodeCapacities,
  SnapshotStore,
  StoredSnapshot,
  StoredVolume,
  VolumeStore,
  WantedVolume,
} from './volume-store.ts';

const defaultBytes = 1024n ** 3n;

/** Sizes are whole pages, so that every pool can allocate them. */
const alignmentBytes = 4096n;

const smallestBlockBytes = 8n * 1024n ** 2n;

interface Ports {
  readonly volumes: Pick<VolumeStore, 'find'>;
  readonly snapshots: Pick<SnapshotStore, 'find'>;
  readonly capacities: NodeCapacities;
  readonly claims?: Claims;
}

/** The volume that CreateVolume requests; throws if no node could create it. */
export async function wantedVolume(
  request: CreateVolumeRequest,
  use: VolumeUse,
  ports: Ports,
  signal: AbortSignal,
): Promise<WantedVolume> {
  const name = required(request.name, 'name');
  refuseUnknownParameters(request.parameters, Object.values(parameters));
  const isClassCrossNode = allowsCrossNode(request.parameters[parameters.crossNode]);
  const deviceClass = request.parameters[parameters.deviceClass] ?? '';
  const limits = parseIoLimits(request.mutableParameters, 'mutable_parameters');
  const isLimited = Object.keys(limits).length > 0;
  const isEncrypted = isEncryptionRequested(request.parameters);
  const accessible = candidateNodes(request.accessibilityRequirements);
  const found = await findSource(request.volumeContentSource, ports, signal);
  const claim = claimOf(request);
  if (claim && !isLimited) await refuseIgnoredClass(claim, ports.claims, signal);
  if (found) {
    refuseOtherClass(found, deviceClass);
    refuseOtherEncryption(found, isEncrypted);
  }
  const elsewhere = found && accessible && !accessible.includes(found.stored.nodeName) ? found : undefined;
  if (elsewhere) {
    const { nodeName } = elsewhere.stored;
    const annotated = claim && (await ports.claims?.annotationOf(claim, parameters.crossNode, signal));
    if (!claim || !(allowsCrossNode(annotated) || isClassCrossNode)) {
      if (claim) await ports.claims?.chooseNode(claim, nodeName, signal);
      throw new SourceElsewhere(elsewhere.source, nodeName, accessible ?? []);
    }
  }

  const candidates = found && !elsewhere ? [found.stored.nodeName] : accessible;
  const requestedBytes = volumeSize(request.capacityRange, { ...use, isEncrypted }, found?.stored.sizeBytes);
  // Of a source on another node all is copied, and it may be larger than what was requested for it.
  const sizeBytes = elsewhere
    ? within(request.capacityRange?.limitBytes ?? 0n, max(requestedBytes, elsewhere.stored.sizeBytes))
    : requestedBytes;
  return {
    name,
    nodeNames: chooseNodes({ candidates, deviceClass, sizeBytes, isLimited }, ports.capacities),
    deviceClass,
    lvcreateOptionClass: request.parameters[parameters.lvcreateOptionClass] ?? '',
    isEncrypted,
    sizeBytes,
    ...(claim && { claim }),
    ...(found && { source: found.source }),
    ...(elsewhere && { sourceNode: elsewhere.stored.nodeName }),
    ...(isLimited && { limits }),
  };
}

function claimOf(request: CreateVolumeRequest): string | undefined {
  const namespace = request.parameters[claimParameters.namespace];
  const name = request.parameters[claimParameters.name];
  return namespace && name ? `${namespace}/${name}` : undefined;
}

function allowsCrossNode(word: string | undefined): boolean {
  if (word === undefined || word === crossNodeAllowed) return word !== undefined;
  throw new InvalidInput(
    `invalid ${parameters.crossNode} ${JSON.stringify(word)}; use ${crossNodeAllowed}, or remove it`,
  );
}

/**
 * A csi-provisioner that does not read VolumeAttributesClasses requests a volume without limits. Kubernetes would never bind
 * that volume to the claim, not even after an upgrade of csi-provisioner.
 */
async function refuseIgnoredClass(claim: string, claims: Claims | undefined, signal: AbortSignal): Promise<void> {
  const name = await claims?.attributesClassOf(claim, signal);
  if (name !== undefined) throw new ClassIgnored(name);
}

class ClassIgnored extends MoorageError {
  readonly code = 'FailedPrecondition';

  constructor(name: string) {
    super(`csi-provisioner did not send the parameters of VolumeAttributesClass ${name}; ${sidecarsForLimits}`);
  }
}

/** The source of a copy. */
interface FoundSource {
  readonly source: ContentSource;
  readonly stored: StoredVolume | StoredSnapshot;
}

/** Undefined for an empty volume. */
async function findSource(
  wanted: VolumeContentSource | undefined,
  { volumes, snapshots }: Pick<Ports, 'volumes' | 'snapshots'>,
  signal: AbortSignal,
): Promise<FoundSource | undefined> {
  if (!wanted) return undefined;
  const source = sourceIn(wanted);
  const stored = await (source.kind === 'volume' ? volumes : snapshots).find(source.id, signal);
  if (!stored) throw new SourceNotFound(source);
  return { source, stored };
}

/** A copy is on the same disks as its source. */
function refuseOtherClass({ source, stored }: FoundSource, deviceClass: string): void {
  if (stored.deviceClass === deviceClass) return;
  throw new InvalidInput(
    `${source.kind} ${source.id} has ${className(stored.deviceClass)}, so its copy cannot have ` +
      `${className(deviceClass)}; use a StorageClass with the device class of the source`,
  );
}

/** A copy has the header and the keys of its source, or none. */
function refuseOtherEncryption({ source, stored }: FoundSource, isEncrypted: boolean): void {
  if (stored.isEncrypted === isEncrypted) return;
  const [is, remedy] = stored.isEncrypted
    ? [
        'is encrypted, so its copy is too',
        `use a StorageClass with ${parameters.encryption}: ${luks2} and the same Secret`,
      ]
    : ['is not encrypted, so its copy cannot be', `use a StorageClass without ${parameters.encryption}`];
  throw new InvalidInput(`${source.kind} ${source.id} ${is}; ${remedy}`);
}

function sourceIn({ type }: VolumeContentSource): ContentSource {
  switch (type.case) {
    case 'volume':
      return { kind: type.case, id: type.value.volumeId };
    case 'snapshot':
      return { kind: type.case, id: type.value.snapshotId };
    case undefined:
      throw new InvalidInput('volume_content_source.type is missing from the request; set snapshot or volume');
  }
}

function className(deviceClass: string): string {
  return deviceClass === '' ? 'the default device class' : `device class ${deviceClass}`;
}

/**
 * The size of a new volume; the pool may allocate a little more. In a range, zero means unset: a copy then has the size of
 * its source.
 */
export function volumeSize(range: CapacityRange | undefined, use: SizedUse, unsetBytes = defaultBytes): bigint {
  const { requiredBytes, limitBytes } = checkedRange(range);
  if (requiredBytes === 0n && limitBytes > 0n && limitBytes < unsetBytes) {
    const sizeBytes = roundDown(limitBytes);
    return sizeBytes >= smallestBytes(use) ? sizeBytes : refuseSize(limitBytes, smallestBytes(use));
  }
  return within(limitBytes, roundUp(max(requiredBytes || unsetBytes, smallestBytes(use))));
}

/** The size that an existing volume grows to. */
export function grownSize(range: CapacityRange): bigint {
  const { requiredBytes, limitBytes } = checkedRange(range);
  if (requiredBytes === 0n) {
    throw new InvalidInput('capacity_range.required_bytes is missing from the request; request a size above zero');
  }
  return within(limitBytes, roundUp(requiredBytes));
}

function checkedRange(range: CapacityRange | undefined): {
  readonly requiredBytes: bigint;
  readonly limitBytes: bigint;
} {
  const { requiredBytes, limitBytes } = range ?? { requiredBytes: 0n, limitBytes: 0n };
  if (requiredBytes < 0n) {
    throw new InvalidInput('capacity_range.required_bytes is negative; request a size above zero');
  }
  if (limitBytes < 0n) throw new InvalidInput('capacity_range.limit_bytes is negative; leave it out or raise it');
  return { requiredBytes, limitBytes };
}

function within(limitBytes: bigint, sizeBytes: bigint): bigint {
  return limitBytes > 0n && sizeBytes > limitBytes ? refuseSize(limitBytes, sizeBytes) : sizeBytes;
}

type SizedUse = VolumeUse & { readonly isEncrypted?: boolean };

function smallestBytes(use: SizedUse): bigint {
  const contents = use.kind === 'block' ? smallestBlockBytes : use.filesystem.smallestBytes;
  return use.isEncrypted ? contents + luksHeaderBytes : contents;
}

function refuseSize(limitBytes: bigint, neededBytes: bigint): never {
  throw new InvalidInput(
    `capacity_range.limit_bytes allows ${formatBytes(limitBytes)}, the volume needs ${formatBytes(neededBytes)}; ` +
      'raise the limit or request less',
  );
}

function roundUp(bytes: bigint): bigint {
  return roundDown(bytes + alignmentBytes - 1n);
}

function roundDown(bytes: bigint): bigint {
  return bytes - (bytes % alignmentBytes);
}

function max(a: bigint, b: bigint): bigint {
  return a > b ? a : b;
}

/** CSI's code for "not in this topology": the pod is scheduled again. */
export class SourceElsewhere extends MoorageError {
  readonly code = 'ResourceExhausted';

  constructor({ kind, id }: ContentSource, nodeName: string, candidates: readonly string[]) {
    super(
      `${kind} ${id} is on node ${nodeName}, so its copy cannot be on ${candidates.join(' or ')}; ` +
        `run its pod on ${nodeName}, or create the claim with the annotation ${parameters.crossNode}: ${crossNodeAllowed}`,
    );
  }
}

export class SourceNotFound extends MoorageError {
  readonly code = 'NotFound';

  constructor({ kind, id }: ContentSource) {
    super(`volume_content_source names ${kind} ${id}, which does not exist; check the dataSource of the claim`);
  }
}
