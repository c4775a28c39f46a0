import { isEncrypted as isEncryptedObject, type StoredLogicalVolume, volumeIdOf } from '../../api/logical-volume.ts';
import {
  claimKey,
  driverName,
  heldByAnnotation,
  keptParameters,
  luks2,
  neverUsedAnnotation,
  parameters,
  secretParameters,
  topologyKey,
  volumeTag,
} from '../../api/names.ts';
import type { NodeStorageStatus } from '../../api/node-storage.ts';
import { InvalidInput } from '../../base/errors.ts';
import { formattedAs, isEncrypted, rawTag, retiredTag, tagValue } from '../../engine/names-and-tags.ts';
import { apiVersionOf, persistentVolumeClaims, persistentVolumes } from '../../kube/resource.ts';
import { type ClaimKey, releasedFrom } from '../claim-ref.ts';
import { classEntryFor, isWithoutClass } from '../disk-orphans.ts';
import { adoptingLogicalVolume, type Manifest } from './writes.ts';

type Orphan = NodeStorageStatus['orphans']['volumes'][number];

/** A volume on a node's disks without an object, and what its tags say about its former owner. */
export interface DiskVolume {
  readonly id: string;
  readonly deviceClass: string;
  readonly size: string;
  /** The PersistentVolume that it belonged to; undefined if Moorage did not create it. */
  readonly volumeName: string | undefined;
  readonly claim: ClaimKey | undefined;
  readonly filesystem: string | undefined;
  readonly isRaw: boolean;
  readonly isEncrypted: boolean;
  /** The volume that its claim has now, if that is another one. */
  readonly claimHas: string | undefined;
  /** It has a LogicalVolume, and lacks only the PersistentVolume. */
  readonly hasObject: boolean;
  /** Why it is not imported, and what to do. */
  readonly obstacle: string | undefined;
}

/** `clash` says what is wrong if an object of another node has its ID. */
export function diskVolumeOf(orphan: Orphan, clash?: string): DiskVolume {
  const { name, deviceClass = '', size, tags } = orphan;
  const [namespace, claim] = tagValue(tags, claimKey)?.split('/') ?? [];
  return {
    id: name,
    deviceClass,
    size: String(size),
    volumeName: tagValue(tags, volumeTag),
    claim: namespace && claim ? { namespace, name: claim } : undefined,
    filesystem: formattedAs({ tags }),
    isRaw: tags.includes(rawTag),
    isEncrypted: isEncrypted({ tags }),
    claimHas: undefined,
    hasObject: false,
    obstacle: obstacleOf(orphan) ?? clash,
  };
}

function obstacleOf(orphan: Orphan): string | undefined {
  if (orphan.tags.includes(retiredTag)) return 'it was never used, and its node does not let it be used any more';
  // A VolumeSnapshot needs objects that no tag describes.
  if (orphan.readOnly) return 'it is a snapshot; only volumes can be imported';
  if (!isWithoutClass(orphan)) return undefined;
  return `its device class was removed from the configuration; add ${classEntryFor(orphan)} to the device classes first`;
}

/** A volume whose PersistentVolume was deleted. Its tags, and so its filesystem, are known only to its node. */
export function volumeWithoutPv(object: StoredLogicalVolume, defaultClass: string): DiskVolume {
  const { metadata, spec, status } = object;
  const { [claimKey]: key = '', [heldByAnnotation]: heldBy } = metadata.annotations ?? {};
  const [namespace, claim] = key.split('/');
  return {
    id: volumeIdOf(object),
    deviceClass: heldBy ?? (spec.deviceClass || defaultClass),
    size: String(status?.currentSize ?? spec.size),
    volumeName: metadata.name,
    claim: namespace && claim ? { namespace, name: claim } : undefined,
    filesystem: undefined,
    isRaw: false,
    isEncrypted: isEncryptedObject(object),
    claimHas: undefined,
    hasObject: true,
    obstacle:
      neverUsedAnnotation in (metadata.annotations ?? {}) ? 'it was never used, and is about to be removed' : undefined,
  };
}

/** The StorageClass of an imported volume. */
export interface ClassOfVolume {
  readonly name: string;
  readonly parameters: Readonly<Record<string, string>>;
}

export interface ImportOptions {
  readonly nodeName: string;
  /** Volumes that are imported although Moorage did not create them. */
  readonly named: readonly string[];
  readonly storageClassFor: (volume: DiskVolume) => ClassOfVolume;
  /** Also create the claims that the volumes belonged to, and reserve each volume for its claim. */
  readonly withClaims: boolean;
}

/** The objects to create, in order: the node adopts a volume before a PersistentVolume refers to it. */
export function planImport(volumes: readonly DiskVolume[], options: ImportOptions): readonly Manifest[] {
  const { named, withClaims } = options;
  for (const name of named) {
    const match = volumes.find(({ id }) => id === name);
    const obstacle = match && obstacleTo(match, options);
    if (obstacle) throw new InvalidInput(`--volume ${name}: ${obstacle}`);
    if (match) continue;
    throw new InvalidInput(`--volume ${name}: node ${options.nodeName} reports no volume ${name} without an object`);
  }
  const chosen = volumes.filter(
    (volume) => !obstacleTo(volume, options) && (volume.volumeName !== undefined || named.includes(volume.id)),
  );
  return chosen.flatMap((found) => {
    // A claim with a newer volume must not get the old data when it is re-created one day.
    const volume = found.claimHas ? { ...found, claim: undefined } : found;
    const name = volume.volumeName ?? nameFor(volume, options.nodeName);
    return [
      ...(volume.hasObject ? [] : [adoptingLogicalVolume(name, { ...volume, nodeName: options.nodeName })]),
      persistentVolumeOf(volume, name, options),
      ...(withClaims && volume.claim ? [claimOf(volume, volume.claim, name, options)] : []),
    ];
  });
}

/** Unique in the cluster, as the volume's name is unique on its node. */
function nameFor({ id }: DiskVolume, nodeName: string): string {
  const word = `${nodeName}-${id}`.toLowerCase().replaceAll(/[^a-z0-9.-]+/g, '-');
  return `import-${word}`.slice(0, 253).replace(/[.-]+$/, '');
}

/** Retain: deleting the claim of recovered data by mistake must not delete the data. */
function persistentVolumeOf(volume: DiskVolume, name: string, options: ImportOptions): Manifest {
  const { nodeName, storageClassFor, withClaims } = options;
  const { id, claim, filesystem, size } = volume;
  const storageClass = storageClassFor(volume);
  const attributes = attributesOf(volume, storageClass);
  const volumeAttributes = Object.keys(attributes).length > 0 ? { volumeAttributes: attributes } : {};
  const secrets = volume.isEncrypted ? secretsFor(volume, name, storageClass) : {};
  return {
    apiVersion: apiVersionOf(persistentVolumes),
    kind: persistentVolumes.kind,
    metadata: { name, annotations: { 'pv.kubernetes.io/provisioned-by': driverName } },
    spec: {
      capacity: { storage: size },
      accessModes: ['ReadWriteOnce'],
      volumeMode: modeOf(volume),
      persistentVolumeReclaimPolicy: 'Retain',
      storageClassName: storageClass.name,
      csi: {
        ...{ driver: driverName, volumeHandle: id },
        ...(filesystem && { fsType: filesystem }),
        ...volumeAttributes,
        ...secrets,
      },
      nodeAffinity: {
        required: {
          nodeSelectorTerms: [{ matchExpressions: [{ key: topologyKey, operator: 'In', values: [nodeName] }] }],
        },
      },
      claimRef:
        withClaims && claim
          ? { apiVersion: 'v1', kind: persistentVolumeClaims.kind, ...claim }
          : releasedFrom(claim, name),
    },
  };
}

/** What a PersistentVolume keeps of its class. Whether it is encrypted depends on the volume alone. */
function attributesOf({ isEncrypted }: DiskVolume, { parameters: given }: ClassOfVolume): Record<string, string> {
  const kept = keptParameters.flatMap((name) => {
    const value = name === parameters.encryption ? (isEncrypted ? luks2 : undefined) : given[name];
    return value === undefined ? [] : [[name, value] as const];
  });
  return Object.fromEntries(kept);
}

const nameClass = 'it is encrypted; pass the --storage-class that names the Secret with its key';

/** Why the volume is not imported; undefined if it is. */
function obstacleTo(volume: DiskVolume, options: Pick<ImportOptions, 'storageClassFor'>): string | undefined {
  return volume.obstacle ?? (lacksSecret(volume, options) ? nameClass : undefined);
}

/** Without the Secret, no pod could use the PersistentVolume, and it could not be added later. */
function lacksSecret(volume: DiskVolume, { storageClassFor }: Pick<ImportOptions, 'storageClassFor'>): boolean {
  if (!volume.isEncrypted) return false;
  const { nodeStageSecretRef } = secretsFor(volume, volume.volumeName ?? volume.id, storageClassFor(volume));
  return nodeStageSecretRef === undefined;
}

interface SecretReferences {
  readonly nodeStageSecretRef?: ClaimKey;
  readonly nodePublishSecretRef?: ClaimKey;
  readonly nodeExpandSecretRef?: ClaimKey;
}

/** As csi-provisioner fills them in; annotations of a claim that is gone are not known. */
function secretsFor({ claim }: DiskVolume, volumeName: string, { parameters: given }: ClassOfVolume): SecretReferences {
  const values: Readonly<Record<string, string | undefined>> = {
    'pv.name': volumeName,
    'pvc.name': claim?.name,
    'pvc.namespace': claim?.namespace,
  };
  const filledIn = (text: string) => text.replaceAll(/\$\{([\w.]+)\}/g, (whole, name: string) => values[name] ?? whole);
  const reference = (parameter: string): ClaimKey | undefined => {
    const name = filledIn(given[parameter] ?? '');
    const namespace = filledIn(given[parameter.replace(/-name$/, '-namespace')] ?? '');
    return name && namespace && !`${name}${namespace}`.includes('$') ? { namespace, name } : undefined;
  };
  const { stage, publish, expand } = secretParameters;
  const references = Object.entries({
    nodeStageSecretRef: reference(stage),
    nodePublishSecretRef: reference(publish),
    nodeExpandSecretRef: reference(expand),
  });
  return Object.fromEntries(references.filter(([, secret]) => secret));
}

function claimOf(
  volume: DiskVolume,
  claim: ClaimKey,
  volumeName: string,
  { storageClassFor }: ImportOptions,
): Manifest {
  return {
    apiVersion: apiVersionOf(persistentVolumeClaims),
    kind: persistentVolumeClaims.kind,
    metadata: { name: claim.name, namespace: claim.namespace },
    spec: {
      accessModes: ['ReadWriteOnce'],
      volumeMode: modeOf(volume),
      storageClassName: storageClassFor(volume).name,
      resources: { requests: { storage: volume.size } },
      volumeName,
    },
  };
}

function modeOf({ isRaw, filesystem }: DiskVolume): 'Block' | 'Filesystem' {
  return isRaw && !filesystem ? 'Block' : 'Filesystem';
}

/** For people: what is there, and what is imported. */
export function foundList(
  volumes: readonly DiskVolume[],
  total: number,
  { nodeName, storageClassFor }: Pick<ImportOptions, 'nodeName' | 'storageClassFor'>,
): string {
  if (volumes.length === 0) return `Node ${nodeName} has no volume without an object.`;
  const more = total > volumes.length ? [`and ${total - volumes.length} more: import these first`] : [];
  const lines = volumes.map((volume) => {
    const { id, deviceClass, size, volumeName, claim, claimHas, hasObject } = volume;
    const what = `${id} (${[deviceClass, size].filter(Boolean).join(', ')})`;
    const obstacle = obstacleTo(volume, { storageClassFor });
    if (obstacle) return `${what}: not imported: ${obstacle}`;
    const newer = claimHas ? `, which has volume ${claimHas} now: imported without a claim` : '';
    const owner = claim ? `belonged to claim ${claim.namespace}/${claim.name}${newer}` : 'its tags name no claim';
    if (hasObject) return `${what}: ${owner}; it has no PersistentVolume: check fsType and volumeMode`;
    const outcome = volumeName ? '' : `; not created by Moorage: to import it, add --volume ${id}`;
    return `${what}: ${owner}${outcome}`;
  });
  return [...lines, ...more].join('\n');
}
