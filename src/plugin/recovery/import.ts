import { parseAllDocuments, stringify } from 'yaml';
import { deleting, isSnapshot, logicalVolumes, volumeIdOf } from '../../api/logical-volume.ts';
import { adoptAnnotation, driverName, ephemeralTag, parameters, volumeTag } from '../../api/names.ts';
import { nodeStorages } from '../../api/node-storage.ts';
import { InvalidInput, MoorageError } from '../../base/errors.ts';
import { tagValue } from '../../engine/names-and-tags.ts';
import type { KubeClient } from '../../kube/client.ts';
import {
  type KubeObject,
  type PersistentVolume,
  type PersistentVolumeClaim,
  persistentVolumeClaims,
  persistentVolumes,
  type Resource,
  storageClasses,
} from '../../kube/resource.ts';
import { type DiskVolume, diskVolumeOf, type ImportOptions, planImport, volumeWithoutPv } from './import-plan.ts';
import { readVolumeIds, sameId, type Use, useOf } from './volume-ids.ts';
import { type Manifest, untilAdopted, write } from './writes.ts';

/** Of csi-provisioner; a class without it has the default filesystem. */
const filesystemParameter = 'csi.storage.k8s.io/fstype';

export interface ImportRequest {
  readonly nodeName: string;
  readonly named: readonly string[];
  /** Empty: the StorageClass of this cluster for the device class of each volume. */
  readonly storageClass: string;
  readonly withClaims: boolean;
}

/** What is on the disks of the node, and the objects for what is imported. */
export async function importable(
  client: KubeClient,
  { nodeName, named, storageClass, withClaims }: ImportRequest,
  signal: AbortSignal,
): Promise<{
  readonly volumes: readonly DiskVolume[];
  readonly total: number;
  readonly manifests: readonly Manifest[];
  readonly storageClassFor: ImportOptions['storageClassFor'];
}> {
  const storage = await client.get(nodeStorages, nodeName, { signal });
  const orphans = storage?.status?.orphans;
  if (!orphans) throw new NotReported(`node ${nodeName} has not reported its storage; see kubectl get nodestorages`);
  // The report is up to half a minute old: what was imported since is not listed again. Nor are volumes of pods.
  const { items } = await client.list(logicalVolumes, { fieldSelector: `spec.nodeName=${nodeName}`, signal });
  const known = new Set(items.map(volumeIdOf));
  const ids = await readVolumeIds(client, signal);
  const defaultClass = storage.status?.pools.find((pool) => pool.default)?.deviceClass ?? '';
  const onDisk = orphans.volumes
    .filter(({ name, tags }) => !known.has(name) && !tags.includes(ephemeralTag))
    .map((orphan) => diskVolumeOf(orphan, clashOf(orphan, ids.usedElsewhere(orphan.name, nodeName))));
  const withoutPv = items
    .filter((object) => object.status?.volumeID && !deleting(object) && !isSnapshot(object))
    .filter((object) => !ids.hasPersistentVolume(volumeIdOf(object)))
    .map((object) => volumeWithoutPv(object, defaultClass));
  const volumes = await Promise.all([...onDisk, ...withoutPv].map((volume) => withClaimState(client, volume, signal)));
  const classes = (await client.list(storageClasses, { signal })).items.filter(
    ({ provisioner }) => provisioner === driverName,
  );
  const storageClassFor = ({ deviceClass, filesystem, isEncrypted }: DiskVolume) => {
    const fits = classes.filter(
      ({ parameters: given }) =>
        (given?.[parameters.deviceClass] ?? defaultClass) === deviceClass &&
        (given?.[parameters.encryption] !== undefined) === isEncrypted,
    );
    const ofFilesystem = (wanted: string | undefined) =>
      fits.find(({ parameters: given }) => given?.[filesystemParameter] === wanted);
    const named = classes.find(({ metadata }) => metadata.name === storageClass);
    const best = named ?? ofFilesystem(filesystem) ?? ofFilesystem(undefined) ?? fits[0];
    return { name: storageClass || (best?.metadata.name ?? ''), parameters: best?.parameters ?? {} };
  };
  const manifests = planImport(volumes, { nodeName, named, withClaims, storageClassFor });
  const total = orphans.total - orphans.volumes.length + volumes.length;
  return { volumes, total, manifests, storageClassFor };
}

function clashOf({ tags }: { readonly tags: readonly string[] }, other: Use | undefined): string | undefined {
  return other && sameId(other, tagValue(tags, volumeTag));
}

async function withClaimState(client: KubeClient, volume: DiskVolume, signal: AbortSignal): Promise<DiskVolume> {
  if (!volume.claim) return volume;
  const { namespace, name } = volume.claim;
  const claim = await client.get(persistentVolumeClaims, name, { namespace, signal });
  const has = claim?.spec?.volumeName;
  return has && has !== volume.volumeName ? { ...volume, claimHas: has } : volume;
}

/** As kubectl shows them. */
export function toYaml(manifests: readonly KubeObject[]): string {
  return manifests
    .map((manifest) => stringify({ ...manifest, metadata: { ...manifest.metadata, managedFields: undefined } }))
    .join('---\n')
    .trimEnd();
}

/** Checks the whole file before anything is created. */
export function readManifests(text: string, file: string): readonly Manifest[] {
  const documents = parseAllDocuments(text);
  return documents.flatMap((document, index) => {
    const place = `${file}, document ${index + 1}`;
    const [error] = document.errors;
    if (error) throw new InvalidInput(`${place}: ${error.message}`);
    const manifest = document.toJS() as Manifest | null;
    if (manifest === null) return [];
    const name = manifest.metadata?.name;
    if (!name || !importedKinds.some(({ kind }) => kind === manifest.kind)) {
      throw new InvalidInput(`${place}: use only LogicalVolumes, PersistentVolumes and claims, as import prints them`);
    }
    if (manifest.kind === logicalVolumes.kind && !manifest.metadata.annotations?.[adoptAnnotation]) {
      throw new InvalidInput(
        `${place}: LogicalVolume ${name} needs the annotation ${adoptAnnotation}; without it, an empty volume would be created`,
      );
    }
    if (manifest.kind === persistentVolumes.kind && (manifest as PersistentVolume).spec?.csi?.driver !== driverName) {
      throw new InvalidInput(`${place}: spec.csi.driver of PersistentVolume ${name} must be ${driverName}`);
    }
    if (manifest.kind === persistentVolumes.kind && !(manifest as PersistentVolume).spec?.claimRef?.name) {
      throw new InvalidInput(
        `${place}: PersistentVolume ${name} needs a spec.claimRef; without one, any claim could get its data: ` +
          'print the objects again with kubectl moorage import --node',
      );
    }
    return [manifest];
  });
}

const importedKinds: readonly Resource<KubeObject>[] = [logicalVolumes, persistentVolumes, persistentVolumeClaims];

/** Of an object that was read by `readManifests`. */
function resourceOf({ kind }: KubeObject): Resource<KubeObject> {
  const resource = importedKinds.find((each) => each.kind === kind);
  if (!resource) throw new InvalidInput(`cannot import an object of kind ${kind}`);
  return resource;
}

/** Creates what is missing. An object that exists must stand for the same volume; all are checked before the first write. */
export async function importManifests(
  client: KubeClient,
  manifests: readonly Manifest[],
  onDone: (manifest: Manifest, outcome: 'created' | 'unchanged') => void,
  signal: AbortSignal,
): Promise<void> {
  await refuseUsedIds(client, manifests, signal);
  const missing = new Set<Manifest>();
  for (const object of manifests) {
    const { name, namespace } = object.metadata;
    const existing = await client.get(resourceOf(object), name, { namespace, signal });
    if (!existing) missing.add(object);
    else if (!standForTheSame(existing, object)) {
      const where = namespace ? `${namespace}/${name}` : name;
      throw new NameInUse(
        `${object.kind} ${where} exists and stands for another volume; give it another name in the file`,
      );
    }
  }
  for (const object of manifests) {
    const resource = resourceOf(object);
    if (missing.has(object)) await write(client, { verb: 'create', resource, object }, signal);
    else if (resource.kind === logicalVolumes.kind) await untilAdopted(client, object.metadata.name, signal);
    onDone(object, missing.has(object) ? 'created' : 'unchanged');
  }
}

/** Also for files that were printed before another node's volume of that name was imported, and for two such in one file. */
async function refuseUsedIds(client: KubeClient, manifests: readonly Manifest[], signal: AbortSignal): Promise<void> {
  const ids = await readVolumeIds(client, signal);
  for (const manifest of manifests) {
    const use = useOf(manifest);
    const other = use && ids.usedElsewhere(use.id, use.nodeName);
    if (other) throw new NameInUse(`${use.kind} ${use.name}: ${sameId(other, use.name)}`);
    ids.add(use);
  }
}

/** A claim that waits gets the PersistentVolume that names it. */
function standForTheSame(existing: KubeObject, wanted: KubeObject): boolean {
  const isWaiting =
    existing.kind === persistentVolumeClaims.kind && !(existing as PersistentVolumeClaim).spec?.volumeName;
  return isWaiting || volumeOf(existing) === volumeOf(wanted);
}

/** A volume on a disk, and for whom it is reserved; for a claim its PersistentVolume. */
function volumeOf(object: KubeObject): string | undefined {
  const { spec } = object as PersistentVolume & PersistentVolumeClaim;
  const { namespace, name } = spec?.claimRef ?? {};
  const handle = spec?.csi && `${spec.csi.volumeHandle} for ${namespace}/${name}`;
  return object.metadata?.annotations?.[adoptAnnotation] ?? handle ?? spec?.volumeName;
}

export class NotReported extends MoorageError {
  readonly code = 'NotFound';
}

export class NameInUse extends MoorageError {
  readonly code = 'AlreadyExists';
}
