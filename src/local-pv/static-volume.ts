import {
  type LocalPvOption,
  localPvAnnotations,
  localPvOptions,
  localPvPrefix,
  localPvStatus,
} from '../api/local-pv.ts';
import { InvalidInput } from '../base/errors.ts';
import { parseQuantity, toQuantity } from '../base/quantity.ts';
import { checkVolumeId } from '../engine/names-and-tags.ts';
import type { PersistentVolume, Stored } from '../kube/resource.ts';
import { type Defaults, defaultsFor } from './defaults.ts';
import { type Options, type OptionWords, type Place, parseOptions, parsePlace } from './options.ts';

/** What a PersistentVolume with a local path requests: the volume has its name, and is visible at its path. */
export interface StaticVolume extends Options {
  readonly name: string;
  readonly uid: string;
  readonly path: string;
  readonly sizeBytes: bigint;
  /** The volume was created or adopted once, and may hold data. */
  readonly isProcessed: boolean;
  /** An existing logical volume of that name is used with its data. */
  readonly adopt: boolean;
}

/** Whether the PersistentVolume is Moorage's business: by its path, or because it has annotations for Moorage. */
export function isStaticVolume({ metadata, spec }: PersistentVolume, mountBase: string): boolean {
  if (!spec?.local) return false;
  return spec.local.path.startsWith(`${mountBase}/`) || annotationsForUs(metadata?.annotations).length > 0;
}

/** Throws InvalidInput, with the field and the remedy, for a PersistentVolume that can never be processed as it is. */
export function staticVolume(
  { metadata, spec }: Stored<PersistentVolume>,
  defaults: Defaults,
  mountBase: string,
): StaticVolume {
  const { name, uid, annotations = {} } = metadata;
  const { local, capacity, storageClassName = '', persistentVolumeReclaimPolicy: policy, volumeMode } = spec ?? {};
  checkVolumeId(name);
  const path = local?.path ?? '';
  if (path !== `${mountBase}/${name}`) {
    throw new InvalidInput(
      `spec.local.path is ${path}; volumes are mounted below ${mountBase} by the name of their PersistentVolume: ` +
        `write ${mountBase}/${name}`,
    );
  }
  if (policy === 'Delete') {
    throw new InvalidInput(
      'spec.persistentVolumeReclaimPolicy is Delete, which Kubernetes cannot do for local volumes; use Retain, and ' +
        `${localPvOptions.autoRelease}: "true" to reuse the volume`,
    );
  }
  if (volumeMode === 'Block') {
    throw new InvalidInput('spec.volumeMode is Block; a static volume has a filesystem: use Filesystem');
  }
  const mountPoint = annotations[localPvAnnotations.mountPoint];
  if (mountPoint !== undefined && mountPoint !== path) {
    throw new InvalidInput(
      `${localPvAnnotations.mountPoint} is ${mountPoint}, but spec.local.path is ${path}; leave the annotation out`,
    );
  }
  const isProcessed = wasProcessed(annotations);
  return {
    ...parseOptions([optionsIn(annotations), ...defaultsFor(defaults, storageClassName)]),
    name,
    uid,
    path,
    sizeBytes: sizeOf(capacity?.['storage'], annotations[localPvAnnotations.size], isProcessed),
    isProcessed,
    adopt: isProcessed || annotations[localPvAnnotations.adopt] === 'true',
  };
}

/** Only where the volume is or should be, even if the rest of the request is invalid. */
export function requestedPlace({ metadata, spec }: Stored<PersistentVolume>, defaults: Defaults): Place {
  return parsePlace([optionsIn(metadata.annotations ?? {}), ...defaultsFor(defaults, spec?.storageClassName ?? '')]);
}

/** Also a volume of k8s-local-pv, which only knows the status. */
export function wasProcessed(annotations: Readonly<Record<string, string>> = {}): boolean {
  const { status, processed } = localPvAnnotations;
  return annotations[status] === localPvStatus.processed || annotations[processed] === 'true';
}

/** The annotations that record what a processed volume got. They also keep its options when the defaults change. */
export function effectiveOptions(
  volume: StaticVolume,
  sizeBytes: bigint,
  volumeGroup: string | undefined,
): Record<string, string> {
  const { filesystem, mkfsOptions, mountOptions, cryptSecret = '', path } = volume;
  return {
    [localPvOptions.fsType]: filesystem.name,
    [localPvOptions.fsOpts]: mkfsOptions.join(' '),
    [localPvOptions.mountOpts]: mountOptions.join(','),
    [localPvOptions.cryptSecret]: cryptSecret,
    ...(volumeGroup !== undefined && { [localPvOptions.vg]: volumeGroup }),
    ...('deviceClass' in volume.place && { [localPvOptions.deviceClass]: volume.place.deviceClass }),
    [localPvAnnotations.size]: toQuantity(sizeBytes),
    [localPvAnnotations.mountPoint]: path,
  };
}

const known = new Set<string>([...Object.values(localPvOptions), ...Object.values(localPvAnnotations)]);

/** Annotations of k8s-local-pv's domain that nothing reads: probably misspelt. */
export function unknownAnnotations({ metadata }: PersistentVolume): readonly string[] {
  return annotationsForUs(metadata?.annotations).filter((name) => !known.has(name));
}

function annotationsForUs(annotations: Readonly<Record<string, string>> = {}): readonly string[] {
  return Object.keys(annotations).filter((name) => name.startsWith(localPvPrefix));
}

function optionsIn(annotations: Readonly<Record<string, string>>): OptionWords {
  const options = Object.entries(localPvOptions) as [LocalPvOption, string][];
  return Object.fromEntries(options.map(([option, name]) => [option, annotations[name]]));
}

/** Once processed, the annotation is what the volume has, and a larger capacity requests growth. */
function sizeOf(capacity: string | undefined, requested: string | undefined, isProcessed: boolean): bigint {
  const capacityBytes = sizeIn('spec.capacity.storage', capacity ?? '');
  if (requested === undefined) return capacityBytes;
  const requestedBytes = sizeIn(localPvAnnotations.size, requested);
  if (requestedBytes < capacityBytes && !isProcessed) {
    throw new InvalidInput(
      `${localPvAnnotations.size} is ${requested}, less than spec.capacity.storage ${capacity}; remove the annotation`,
    );
  }
  return requestedBytes > capacityBytes ? requestedBytes : capacityBytes;
}

function sizeIn(field: string, text: string): bigint {
  try {
    const bytes = parseQuantity(text);
    if (bytes > 0n) return bytes;
  } catch (error) {
    if (!(error instanceof InvalidInput)) throw error;
  }
  throw new InvalidInput(`${field} is ${JSON.stringify(text)}; write a size such as 30Gi`);
}
