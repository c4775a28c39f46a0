import { InvalidInput, MoorageError } from '../base/errors.ts';
import { defaultFilesystem, type Filesystem, filesystemNamed, filesystems } from '../filesystem/filesystem.ts';
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
