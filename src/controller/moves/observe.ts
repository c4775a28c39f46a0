import {
  currentBytes,
  isSnapshot,
  logicalVolumes,
  recordedSourceOf,
  type StoredLogicalVolume,
  volumeIdOf,
} from '../../api/logical-volume.ts';
import { topologyKey } from '../../api/names.ts';
import {
  claimOfMove,
  isCopy,
  isOver,
  type MovePhase,
  phaseOf,
  type StoredVolumeMove,
  volumeMoves,
} from '../../api/volume-move.ts';
import type { Clock } from '../../base/clock.ts';
import type { KubeClient } from '../../kube/client.ts';
import {
  affinityValues,
  claimNamesOf,
  nodes,
  type PersistentVolume,
  type Pod,
  persistentVolumeClaims,
  persistentVolumes,
  type Stored,
} from '../../kube/resource.ts';
import type { ClaimUsers } from '../claims/claim-users.ts';
import type { Observed, PinnedClaim } from './observed.ts';
import { handleOf } from './persistent-volume-switch.ts';
import { recordedPartners } from './together.ts';

type Client = Pick<KubeClient, 'get' | 'list'>;

interface Collaborators {
  readonly client: Client;
  readonly users: Pick<ClaimUsers, 'of'>;
  readonly clock: Pick<Clock, 'now'>;
}

/** The label that local volumes of other drivers name. */
const hostnameLabel = 'kubernetes.io/hostname';

const podsMatter: ReadonlySet<MovePhase> = new Set(['Pending', 'Copying', 'Stopping', 'Freezing', 'Cleaning']);
const otherVolumesMatter: ReadonlySet<MovePhase> = new Set(['Pending', 'Copying']);

const partnersMatter: ReadonlySet<MovePhase> = new Set(['Copying', 'Stopping', 'Freezing']);

/**
 * Reads everything from the API server: what is decided may be destructive, and a cache may be behind. Only which pods use
 * the claim is known from a watch; one that it does not know yet cannot use the volume, which the source has closed.
 */
export async function observe(
  { client, users, clock }: Collaborators,
  move: StoredVolumeMove,
  signal: AbortSignal,
): Promise<Observed> {
  const ageMs = clock.now() - Date.parse(move.metadata.creationTimestamp);
  if (isCopy(move)) return { ageMs, ...(await observeCopy(client, move, signal)) };
  const { namespace = '' } = move.metadata;
  const { claimName } = move.spec;
  const { status = {} } = move;
  const phase = phaseOf(move);
  const isPlanned = status.claimUID !== undefined;

  const claim = await client.get(persistentVolumeClaims, claimName, { namespace, signal });
  const volumeName = status.persistentVolume ?? claim?.spec?.volumeName;
  const volume = volumeName ? await client.get(persistentVolumes, volumeName, { signal }) : undefined;
  const source = isPlanned
    ? await client.get(logicalVolumes, status.sourceVolume ?? '', { signal })
    : await logicalVolumeOf(client, volume, signal);
  const found = podsMatter.has(phase) ? await users.of(claimOfMove(move), signal) : [];
  const nodeNamed = async (name: string | undefined) => (name ? client.get(nodes, name, { signal }) : undefined);
  return {
    ageMs,
    claim,
    volume,
    pods: found,
    pinned: otherVolumesMatter.has(phase) ? await pinnedBy(client, found, move, signal) : [],
    source,
    target: status.targetVolume ? await client.get(logicalVolumes, status.targetVolume, { signal }) : undefined,
    snapshots: source && phase === 'Cleaning' ? await snapshotsOf(client, source, signal) : [],
    sourceNode: await nodeNamed(status.sourceNode ?? source?.spec.nodeName),
    targetNode: await nodeNamed(status.targetNode),
    nodes: isPlanned ? [] : (await client.list(nodes, { signal })).items,
    others: otherVolumesMatter.has(phase) ? await othersThan(client, move, signal) : [],
    partners: partnersMatter.has(phase)
      ? recordedPartners(move, (await client.list(volumeMoves, { namespace, signal })).items)
      : [],
  };
}

/** A copy has no PersistentVolume and no pods. Before it is planned, its target names its source. */
async function observeCopy(
  client: Client,
  move: StoredVolumeMove,
  signal: AbortSignal,
): Promise<Omit<Observed, 'ageMs'>> {
  const { metadata, spec, status } = move;
  const nodeNamed = async (name: string | undefined) => (name ? client.get(nodes, name, { signal }) : undefined);
  const target = await client.get(logicalVolumes, spec.fill ?? '', { signal });
  const source = status?.sourceVolume
    ? await client.get(logicalVolumes, status.sourceVolume, { signal })
    : target && (await sourceOfCopy(client, target, signal));
  return {
    claim: await client.get(persistentVolumeClaims, spec.claimName, { namespace: metadata.namespace ?? '', signal }),
    volume: undefined,
    pods: [],
    pinned: [],
    source,
    target,
    snapshots: [],
    sourceNode: await nodeNamed(source?.spec.nodeName ?? status?.sourceNode),
    targetNode: await nodeNamed(target?.spec.nodeName ?? status?.targetNode),
    nodes: [],
    others: status?.claimUID ? [] : await othersThan(client, move, signal),
    partners: [],
  };
}

async function sourceOfCopy(
  client: Client,
  target: StoredLogicalVolume,
  signal: AbortSignal,
): Promise<StoredLogicalVolume | undefined> {
  const recorded = recordedSourceOf(target);
  return recorded && onlyWithId(await volumesWithId(client, recorded.id, signal));
}

export async function volumesWithId(
  client: Client,
  id: string,
  signal: AbortSignal,
): Promise<readonly StoredLogicalVolume[]> {
  const fieldSelector = `status.volumeID=${id.replaceAll(/[\\,=]/g, '\\$&')}`;
  return (await client.list(logicalVolumes, { fieldSelector, signal })).items;
}

/** Of several, only a person can decide which one has the data. */
function onlyWithId([volume, ...others]: readonly StoredLogicalVolume[]): StoredLogicalVolume | undefined {
  return others.length === 0 ? volume : undefined;
}

async function othersThan(
  client: Client,
  { metadata }: StoredVolumeMove,
  signal: AbortSignal,
): Promise<readonly StoredVolumeMove[]> {
  const { items } = await client.list(volumeMoves, { signal });
  return items.filter((other) => !isOver(other) && other.metadata.uid !== metadata.uid);
}

/** By the volume's ID, on the node that the PersistentVolume names. */
export async function logicalVolumeOf(
  client: Client,
  volume: PersistentVolume | undefined,
  signal: AbortSignal,
): Promise<StoredLogicalVolume | undefined> {
  const handle = volume && handleOf(volume);
  if (!volume || !handle) return undefined;
  const found = await volumesWithId(client, handle, signal);
  return found.find(({ spec }) => affinityValues(volume, topologyKey)?.includes(spec.nodeName));
}

async function snapshotsOf(
  client: Client,
  source: StoredLogicalVolume,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const fieldSelector = `spec.nodeName=${source.spec.nodeName}`;
  const { items } = await client.list(logicalVolumes, { fieldSelector, signal });
  // A snapshot of TopoLVM names only the object of its source.
  const isIts = (volume: StoredLogicalVolume) =>
    (recordedSourceOf(volume)?.id ?? volume.spec.source) ===
    (recordedSourceOf(volume) ? volumeIdOf(source) : source.spec.name);
  return items.filter((volume) => isSnapshot(volume) && isIts(volume)).map(({ metadata }) => metadata.name);
}

/** The other claims of these pods whose volumes are on one node each. */
async function pinnedBy(
  client: Client,
  users: readonly Stored<Pod>[],
  { metadata, spec }: StoredVolumeMove,
  signal: AbortSignal,
): Promise<readonly PinnedClaim[]> {
  const { namespace = '' } = metadata;
  const podOf = new Map(users.flatMap((pod) => claimNamesOf(pod).map((name) => [name, pod.metadata.name] as const)));
  podOf.delete(spec.claimName);
  const pinned: PinnedClaim[] = [];
  for (const [name, pod] of podOf) {
    const claim = await client.get(persistentVolumeClaims, name, { namespace, signal });
    const volumeName = claim?.spec?.volumeName;
    const volume = volumeName ? await client.get(persistentVolumes, volumeName, { signal }) : undefined;
    const nodeNames =
      volume && (nonEmpty(affinityValues(volume, topologyKey)) ?? affinityValues(volume, hostnameLabel));
    if (!nodeNames || nodeNames.length === 0) continue;
    const own = await logicalVolumeOf(client, volume, signal);
    pinned.push({
      claim: `${namespace}/${name}`,
      pod,
      nodeNames,
      sizeBytes: own ? currentBytes(own) : 0n,
      deviceClass: own ? (own.spec.deviceClass ?? '') : undefined,
    });
  }
  return pinned;
}

function nonEmpty(names: readonly string[] | undefined): readonly string[] | undefined {
  return names && names.length > 0 ? names : undefined;
}
