import { leaveState } from '../api/leave.ts';
import { localPvOptions } from '../api/local-pv.ts';
import { logicalVolumes, recordedSourceOf, type StoredLogicalVolume } from '../api/logical-volume.ts';
import { claimKey } from '../api/names.ts';
import { MoorageError } from '../base/errors.ts';
import { formatBytes, parseQuantity } from '../base/quantity.ts';
import { eventTime } from '../explain/known.ts';
import type { KubeClient } from '../kube/client.ts';
import {
  type Event,
  events,
  type PersistentVolume,
  type PersistentVolumeClaim,
  type Pod,
  persistentVolumeClaims,
  persistentVolumes,
  pods,
  type Stored,
} from '../kube/resource.ts';
import { claimOf } from './claim-ref.ts';
import { claimFacts, isOfMoorage, persistentVolumeFacts, podFacts, readLogicalVolumeOf, volumeFacts } from './facts.ts';
import { staticVolumeFacts, staticVolumeRow } from './static-volumes.ts';
import { age, type Column, paint, type Terminal, table, wrapped } from './terminal.ts';
import { healthCell, type VolumeRow, volumeRow } from './volumes.ts';

export class NoSuchVolume extends MoorageError {
  readonly code = 'NotFound';
}

/** The objects of one volume. A claim that waits has no others yet. */
export interface VolumeObjects {
  readonly volume: StoredLogicalVolume | undefined;
  readonly persistentVolume: Stored<PersistentVolume> | undefined;
  readonly claim: Stored<PersistentVolumeClaim> | undefined;
  readonly pods: readonly Stored<Pod>[];
  readonly events: readonly Stored<Event>[];
}

const claimPrefix = /^(pvc|persistentvolumeclaims?)\//;
const volumePrefix = /^(pv|persistentvolumes?|logicalvolumes?)\//;

/**
 * By `namespace/claim`, by a claim in the namespace, or by the name of the PersistentVolume or LogicalVolume. As in kubectl, a
 * name can say what it is: `pvc/claim`, `pv/name`.
 */
export async function readVolume(
  client: KubeClient,
  word: string,
  namespace: string,
  signal: AbortSignal,
): Promise<VolumeObjects> {
  const isVolume = volumePrefix.test(word);
  const name = word.replace(isVolume ? volumePrefix : claimPrefix, '');
  const [place, claimed] = name.includes('/') ? splitKey(name) : [namespace, name];
  const named = isVolume ? undefined : await client.get(persistentVolumeClaims, claimed, { namespace: place, signal });
  const pvName = named ? named.spec?.volumeName : name.includes('/') ? undefined : name;
  const pv = pvName ? await client.get(persistentVolumes, pvName, { signal }) : undefined;
  if (pv && !isOfMoorage(pv))
    throw new NoSuchVolume(`${name} is not a volume of Moorage: its driver is ${driverOf(pv)}`);
  const volume = await findVolume(client, pv, named ? undefined : name, signal);
  if (!named && !pv && !volume) {
    throw new NoSuchVolume(
      `there is no claim ${place}/${claimed}, and no PersistentVolume or LogicalVolume ${name}; ` +
        'see kubectl moorage volumes -A',
    );
  }
  const [recordedPlace, recorded] = splitKey(volume?.metadata.annotations?.[claimKey] ?? '');
  const { namespace: owner = recordedPlace, name: ownerName = recorded } = (pv && claimOf(pv)) ?? {};
  const claim =
    named ?? (ownerName && (await client.get(persistentVolumeClaims, ownerName, { namespace: owner, signal })));
  const users = claim ? await podsOf(client, claim, signal) : [];
  const objects = [volume, pv, claim, ...users].filter((object) => object !== undefined && object !== '');
  const lists = await Promise.all(objects.map(({ metadata }) => eventsOf(client, metadata, signal)));
  return {
    volume,
    persistentVolume: pv,
    claim: claim || undefined,
    pods: users,
    events: lists.flat().sort((a, b) => eventTime(a) - eventTime(b)),
  };
}

function splitKey(key: string): readonly [string, string] {
  const [namespace = '', name = ''] = key.split('/');
  return [namespace, name];
}

function driverOf({ spec }: PersistentVolume): string {
  return spec?.csi?.driver ?? 'none';
}

async function findVolume(
  client: KubeClient,
  pv: Stored<PersistentVolume> | undefined,
  name: string | undefined,
  signal: AbortSignal,
): Promise<StoredLogicalVolume | undefined> {
  const byId = pv && (await readLogicalVolumeOf(client, pv, signal));
  if (byId) return byId;
  if (pv?.spec?.local) return undefined;
  const known = pv?.metadata.name ?? name;
  return known && !known.includes('/') ? client.get(logicalVolumes, known, { signal }) : undefined;
}

async function podsOf(client: KubeClient, claim: Stored<PersistentVolumeClaim>, signal: AbortSignal) {
  const { namespace, name } = claim.metadata;
  const { items } = await client.list(pods, { namespace, signal });
  return items.filter((pod) => podFacts(pod).claims.includes(`${namespace}/${name}`));
}

async function eventsOf(
  client: KubeClient,
  { namespace, uid }: { namespace?: string; uid: string },
  signal: AbortSignal,
) {
  const fieldSelector = `regarding.uid=${uid}`;
  return (await client.list(events, { namespace: namespace ?? 'default', fieldSelector, signal })).items;
}

/** A volume as `-o json` shows it. Programs depend on these names. */
export interface VolumeDetails extends Partial<VolumeRow> {
  readonly requestedBytes?: bigint;
  readonly claimPhase?: string;
  /** How far an operator is that was asked to move its data out of the volume. */
  readonly leaving?: string;
  readonly persistentVolume?: string;
  readonly reclaimPolicy?: string;
  readonly filesystem?: string;
  /** Of a static volume, on its node. */
  readonly path?: string;
  readonly source?: string;
  readonly podPhases: Readonly<Record<string, string>>;
  readonly events: readonly VolumeEvent[];
}

interface VolumeEvent {
  readonly time: string;
  readonly type: string;
  readonly reason: string;
  readonly object: string;
  readonly message: string;
}

export function volumeDetails({ volume, persistentVolume: pv, claim, ...rest }: VolumeObjects): VolumeDetails {
  const written = pv && staticVolumeFacts(pv);
  const provisioned = pv && persistentVolumeFacts(pv);
  const facts = {
    persistentVolumes: new Map(provisioned ? [[provisioned.handle, provisioned]] : []),
    claims: new Map(claim ? [claimFacts(claim)] : []),
    users: new Map(rest.pods.flatMap((pod) => podFacts(pod).claims.map((key) => [key, [pod.metadata.name]] as const))),
  };
  const row = written ? staticVolumeRow(written, facts) : volume && volumeRow(volumeFacts(volume), facts);
  const { namespace, name } = claim?.metadata ?? {};
  const requested = claim?.spec?.resources?.requests?.['storage'];
  const leaving = leaveState(claim?.metadata.annotations);
  const source = volume && recordedSourceOf(volume);
  const fsType = written ? pv.metadata.annotations?.[localPvOptions.fsType] : pv?.spec?.csi?.fsType;
  const filesystem = pv?.spec?.volumeMode === 'Block' ? 'none (block device)' : fsType;
  return {
    ...(namespace && name && { namespace, claim: name }),
    ...row,
    pods: rest.pods.map(({ metadata }) => metadata.name),
    ...(requested && { requestedBytes: parseQuantity(requested) }),
    ...(claim?.status?.phase && { claimPhase: claim.status.phase }),
    ...(leaving && { leaving }),
    ...(pv && { persistentVolume: pv.metadata.name }),
    ...(pv?.spec?.persistentVolumeReclaimPolicy && { reclaimPolicy: pv.spec.persistentVolumeReclaimPolicy }),
    ...(filesystem && { filesystem }),
    ...(written && pv.spec?.local && { path: pv.spec.local.path }),
    ...(source && { source: `${source.kind} ${source.id}` }),
    podPhases: Object.fromEntries(rest.pods.map(({ metadata, status }) => [metadata.name, status?.phase ?? ''])),
    events: rest.events.map((event) => ({
      time: new Date(eventTime(event)).toISOString(),
      type: event.type ?? '',
      reason: event.reason ?? '',
      object: `${event.regarding?.kind}/${event.regarding?.name}`,
      message: event.note ?? '',
    })),
  };
}

export function volumeScreen(details: VolumeDetails, nowMs: number, terminal: Terminal): string {
  const { health, sizeBytes, requestedBytes, createdAt, reason, events, podPhases } = details;
  const facts: readonly (readonly [string, string | undefined])[] = [
    ['Claim', claimLine(details)],
    [
      'Pods',
      Object.entries(podPhases)
        .map(([name, phase]) => `${name} (${phase})`)
        .join(', ') || 'none',
    ],
    ['Health', health ? paint(healthCell(health), terminal) : 'Pending: it has no volume yet'],
    ['Reason', reason && wrapped(reason, ' '.repeat(18), terminal).trimStart()],
    ['Leaving', details.leaving && wrapped(details.leaving, ' '.repeat(18), terminal).trimStart()],
    ['Node', details.node],
    ['Device class', details.deviceClass === '' ? '(default)' : details.deviceClass],
    ['StorageClass', details.storageClass],
    ['Size', sizeBytes === undefined ? undefined : formatBytes(sizeBytes)],
    ['Requested', requestedBytes === undefined ? undefined : formatBytes(requestedBytes)],
    ['Filesystem', details.filesystem],
    ['Copy of', details.source],
    ['PersistentVolume', details.persistentVolume && `${details.persistentVolume} (${details.reclaimPolicy ?? ''})`],
    ['LogicalVolume', details.path === undefined ? details.name : undefined],
    ['Path', details.path],
    ['On disk', details.volumeId],
    ['Created', createdAt && `${createdAt} (${age(createdAt, nowMs)} ago)`],
  ];
  const shown = facts.flatMap(([name, value]) => (value ? [`${`${name}:`.padEnd(18)}${value}`] : []));
  return [
    ...shown,
    '',
    ...(events.length > 0 ? ['Events, oldest first:', eventTable(events, nowMs, terminal)] : ['No events.']),
  ].join('\n');
}

/** Messages are long: on a terminal they have their own lines. */
function eventTable(events: readonly VolumeEvent[], nowMs: number, terminal: Terminal): string {
  const columns: readonly Column<VolumeEvent>[] = [
    { title: 'AGE', cell: ({ time }) => age(time, nowMs) },
    { title: 'TYPE', cell: ({ type }) => ({ text: type, colour: type === 'Warning' ? 'yellow' : undefined }) },
    { title: 'REASON', cell: ({ reason }) => reason },
    { title: 'OBJECT', cell: ({ object }) => object, atLeast: 10 },
  ];
  if (terminal.columns === undefined) {
    const message = ({ message }: VolumeEvent) => message.replaceAll('\n', ' ');
    return table([...columns, { title: 'MESSAGE', cell: message }], events, terminal);
  }
  const [header, ...lines] = table(columns, events, terminal).split('\n');
  const indented = lines.flatMap((line, i) => [line, wrapped(events[i]?.message ?? '', '     ', terminal)]);
  return [header, ...indented].join('\n');
}

function claimLine({ namespace, claim, claimPhase }: VolumeDetails): string {
  if (!claim) return 'none';
  return `${namespace}/${claim}${claimPhase ? ` (${claimPhase})` : ' (deleted)'}`;
}
