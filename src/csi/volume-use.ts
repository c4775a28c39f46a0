import {
  ephemeralSizeAttributes,
  keptParameters,
  luks2,
  parameterPrefixes,
  parameters,
  publishContext,
} from '../api/names.ts';
import { invalidPolicies, invalidPolicyText } from '../api/policies.ts';
import { InvalidInput, MoorageError } from '../base/errors.ts';
import {
  defaultFilesystem,
  type Filesystem,
  filesystemNamed,
  filesystems,
  parseMkfsOptions,
} from '../filesystem/filesystem.ts';
import { type Owner, untouchedRoot } from '../filesystem/root.ts';
import { VolumeCapability_AccessMode_Mode as Mode, type VolumeCapability } from '../rpc/gen/csi/v1/csi_pb.ts';
import { required } from './required.ts';

/** What a volume is used as. */
export type VolumeUse = FilesystemUse | BlockUse;

export interface FilesystemUse {
  readonly kind: 'filesystem';
  readonly filesystem: Filesystem;
  readonly mountFlags: readonly string[];
}

export interface BlockUse {
  readonly kind: 'block';
}

/** Local volumes are on one node, where any number of pods may use them. */
const offeredModes: ReadonlySet<Mode> = new Set([
  Mode.SINGLE_NODE_WRITER,
  Mode.SINGLE_NODE_READER_ONLY,
  Mode.SINGLE_NODE_SINGLE_WRITER,
  Mode.SINGLE_NODE_MULTI_WRITER,
]);

/** The use that one capability requests; throws if no volume of this driver supports it. */
export function volumeUse(capability: VolumeCapability, field: string): VolumeUse {
  const mode = capability.accessMode?.mode ?? Mode.UNKNOWN;
  if (!offeredModes.has(mode)) throw new AccessModeNotOffered(field, mode);
  const { accessType } = capability;
  switch (accessType.case) {
    case 'block':
      return { kind: 'block' };
    case 'mount':
      return {
        kind: 'filesystem',
        filesystem: knownFilesystem(accessType.value.fsType, field),
        mountFlags: accessType.value.mountFlags,
      };
    case undefined:
      throw new InvalidInput(`${field}.access_type is missing from the request; set block or mount`);
  }
}

/** Whether the volume is read-only for its user. */
export function isForReading({ accessMode }: VolumeCapability): boolean {
  return accessMode?.mode === Mode.SINGLE_NODE_READER_ONLY;
}

/** Whether only one pod may use the volume at a time, as with ReadWriteOncePod. */
export function isExclusive({ accessMode }: VolumeCapability): boolean {
  return accessMode?.mode === Mode.SINGLE_NODE_SINGLE_WRITER;
}

/** Mount flags are separate, or joined as in `-o noatime,ro`. */
export function hasFlag(flags: readonly string[], wanted: string): boolean {
  return flags.some((flag) => flag.split(',').includes(wanted));
}

/** All capabilities of a request must fit one volume; the first one determines its minimum size. */
export function volumeUses(capabilities: readonly VolumeCapability[]): readonly [VolumeUse, ...VolumeUse[]] {
  const field = 'volume_capabilities';
  const [first, ...others] = required(capabilities, field).map((capability, index) =>
    volumeUse(capability, `${field}[${index}]`),
  );
  return [required(first, field), ...others];
}

function knownFilesystem(wanted: string, field: string): Filesystem {
  if (wanted === '') return defaultFilesystem;
  const filesystem = filesystemNamed(wanted);
  if (!filesystem) {
    throw new InvalidInput(
      `${field}.mount.fs_type ${JSON.stringify(wanted)} is not supported; ` +
        `use one of ${filesystems.map(({ name }) => name).join(', ')}`,
    );
  }
  return filesystem;
}

/** A local volume is on one node, so access modes for several nodes are not supported. */
export class AccessModeNotOffered extends MoorageError {
  readonly code = 'InvalidArgument';

  constructor(field: string, mode: Mode) {
    const name = Object.entries(Mode).find(([, number]) => number === mode)?.[0] ?? String(mode);
    super(`${field}.access_mode ${name} is not supported by a local volume; use ReadWriteOnce or ReadWriteOncePod`);
  }
}

/** The volume_context that CreateVolume returns and the kubelet sends with each call about the volume. */
export type VolumeContext = Readonly<Record<string, string>>;

/** How a new filesystem is created, and who owns its root directory. An existing one is not changed. */
export interface FilesystemSettings {
  readonly mkfsOptions: readonly string[];
  readonly rootMode: number;
  readonly rootOwner: Owner;
}

/** An inline ephemeral volume: created when it is published, and removed with its pod. */
export interface EphemeralVolume {
  readonly sizeBytes: bigint;
  /** Empty for the node's default. */
  readonly deviceClass: string;
  readonly podUid: string;
  /** Attributes set by the pod that only a StorageClass may set: ignored, and no new volume is created with them. */
  readonly forClassesOnly: readonly string[];
}

const classSettingNames: readonly string[] = [parameters.mkfsOptions, parameters.rootOwner, parameters.encryption];
const gibi = 1024n ** 3n;

/**
 * The StorageClass parameters that matter after the volume is created; throws if they are invalid. The PersistentVolume
 * keeps them, so a class that is deleted later changes nothing for its volumes.
 */
export function contextFor(given: Readonly<Record<string, string>>, use: VolumeUse): Record<string, string> {
  if (use.kind === 'filesystem') filesystemSettings(given, use.filesystem);
  const [invalid] = invalidPolicies(given);
  if (invalid) throw new InvalidInput(invalidPolicyText(invalid));
  isEncryptionRequested(given);
  return Object.fromEntries(keptParameters.flatMap((name) => (given[name] === undefined ? [] : [[name, given[name]]])));
}

/** Whether a volume's context, or the StorageClass parameters it was created from, requests encryption. */
export function isEncryptionRequested({ [parameters.encryption]: word }: VolumeContext): boolean {
  if (word === undefined || word === luks2) return word === luks2;
  throw new InvalidInput(`${parameters.encryption} is ${JSON.stringify(word)}; use ${luks2}, or leave it out`);
}

/** The settings in a volume's context, or in the StorageClass parameters it was created from. */
export function filesystemSettings(context: VolumeContext, filesystem: Filesystem): FilesystemSettings {
  return {
    mkfsOptions: parseMkfsOptions(filesystem, context[parameters.mkfsOptions] ?? '', parameters.mkfsOptions),
    rootMode: rootMode(context[parameters.rootMode]),
    rootOwner: rootOwner(context[parameters.rootOwner]),
  };
}

/** The context without class-only settings: the context of an inline volume is written by the author of the pod. */
export function withoutClassSettings(context: VolumeContext): VolumeContext {
  return Object.fromEntries(Object.entries(context).filter(([name]) => !classSettingNames.includes(name)));
}

/** Undefined for a volume that is not ephemeral, such as that of a claim. */
export function ephemeralVolume(context: VolumeContext): EphemeralVolume | undefined {
  if (context[publishContext.ephemeral] !== 'true') return undefined;
  const offered: readonly string[] = [parameters.rootMode, parameters.deviceClass, ...ephemeralSizeAttributes];
  const known = new Set([...offered, ...classSettingNames]);
  const isOurs = (name: string) => parameterPrefixes.some((prefix) => name.startsWith(prefix));
  const unknown = Object.keys(context).find((name) => isOurs(name) && !known.has(name));
  if (unknown !== undefined) {
    throw new InvalidInput(
      `unknown name ${JSON.stringify(unknown)} in the pod's volume attributes; use one of ${offered.join(', ')}`,
    );
  }
  return {
    sizeBytes: ephemeralSize(context),
    deviceClass: context[parameters.deviceClass] ?? '',
    podUid: context[publishContext.podUid] ?? '',
    forClassesOnly: classSettingNames.filter((name) => context[name] !== undefined),
  };
}

function ephemeralSize(context: VolumeContext): bigint {
  const name = ephemeralSizeAttributes.find((name) => context[name] !== undefined);
  const text = name === undefined ? '1' : (context[name] ?? '');
  if (!/^[1-9]\d{0,6}$/.test(text)) {
    throw new InvalidInput(
      `the pod's volume attribute ${name} is ${JSON.stringify(text)}; write a whole number of GiB, such as 10`,
    );
  }
  return BigInt(text) * gibi;
}

/** At most four octal digits, as chmod accepts. */
function rootMode(text = '2777'): number {
  if (/^[0-7]{3,4}$/.test(text)) return Number.parseInt(text, 8);
  throw new InvalidInput(
    `${parameters.rootMode} is ${JSON.stringify(text)}; write the mode of the root directory in octal digits, such as 0750`,
  );
}

function rootOwner(text?: string): Owner {
  if (text === undefined) return untouchedRoot.owner;
  const [, uid, gid] = /^(\d{1,10}):(\d{1,10})$/.exec(text)?.map(Number) ?? [];
  if (uid !== undefined && gid !== undefined && isId(uid) && isId(gid)) return { uid, gid };
  throw new InvalidInput(
    `${parameters.rootOwner} is ${JSON.stringify(text)}; write the numbers of user and group, such as 1000:1000`,
  );
}

/** The last number means "leave it as it is" to the kernel. */
function isId(id: number): boolean {
  return id < 2 ** 32 - 1;
}
