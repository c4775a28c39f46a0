import { InvalidInput, MoorageError } from '../../base/errors.ts';
import type { VolumeContentSource } from '../../rpc/gen/csi/v1/csi_pb.ts';
import type { ContentSource, SnapshotStore, StoredSnapshot, StoredVolume, VolumeStore } from './volume-store.ts';

/** The source of a copy. */
export interface FoundSource {
  readonly source: ContentSource;
  readonly stored: StoredVolume | StoredSnapshot;
}

interface Stores {
  readonly volumes: Pick<VolumeStore, 'find'>;
  readonly snapshots: Pick<SnapshotStore, 'find'>;
}

/** Undefined for an empty volume. */
export async function findSource(
  wanted: VolumeContentSource | undefined,
  { volumes, snapshots }: Stores,
  signal: AbortSignal,
): Promise<FoundSource | undefined> {
  if (!wanted) return undefined;
  const source = sourceIn(wanted);
  const stored = await (source.kind === 'volume' ? volumes : snapshots).find(source.id, signal);
  if (!stored) throw new SourceNotFound(source);
  return { source, stored };
}

/** A copy is on the same disks as its source. */
export function refuseOtherClass({ source, stored }: FoundSource, deviceClass: string): void {
  if (stored.deviceClass === deviceClass) return;
  throw new InvalidInput(
    `${source.kind} ${source.id} has ${className(stored.deviceClass)}, so its copy cannot have ` +
      `${className(deviceClass)}; use a StorageClass with the device class of the source`,
  );
}

export function contentSourceMessage({ kind, id }: ContentSource) {
  return kind === 'volume'
    ? { type: { case: kind, value: { volumeId: id } } }
    : { type: { case: kind, value: { snapshotId: id } } };
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

/** CSI's code for "not in this topology": the pod is scheduled again. */
export class SourceElsewhere extends MoorageError {
  readonly code = 'ResourceExhausted';

  constructor({ kind, id }: ContentSource, nodeName: string, candidates: readonly string[]) {
    super(
      `${kind} ${id} is on node ${nodeName}, so its copy cannot be on ${candidates.join(' or ')}; ` +
        `run its pod on ${nodeName}`,
    );
  }
}

export class SourceNotFound extends MoorageError {
  readonly code = 'NotFound';

  constructor({ kind, id }: ContentSource) {
    super(`volume_content_source names ${kind} ${id}, which does not exist; check the dataSource of the claim`);
  }
}
