import { type LogicalVolumeStatus, logicalVolumes, type StoredLogicalVolume } from '../../api/logical-volume.ts';
import { logicalVolume } from '../../api/names.ts';
import type { JsonPatchStep, KubeClient } from '../../kube/client.ts';

/** A node's writes to its LogicalVolumes. Each write fails if the object was replaced by another of the same name. */
export class LogicalVolumeWriter {
  readonly #client: Pick<KubeClient, 'patch'>;

  constructor(client: Pick<KubeClient, 'patch'>) {
    this.#client = client;
  }

  async answer(volume: StoredLogicalVolume, status: LogicalVolumeStatus, signal: AbortSignal): Promise<void> {
    await this.#write(volume, [sameObject(volume)], status, signal);
  }

  /**
   * Reports that the volume could not be created, which lets the controller delete the object. Fails if the object has
   * changed: an earlier answer may have been stored without our knowledge, and the volume may be in use.
   */
  async refuse(volume: StoredLogicalVolume, failure: LogicalVolumeStatus, signal: AbortSignal): Promise<void> {
    await this.#write(volume, [sameObject(volume), sameState(volume)], failure, signal);
  }

  /** Without the finalizer, the object could be deleted before its volume. Returns the updated object. */
  async protect(volume: StoredLogicalVolume, signal: AbortSignal): Promise<StoredLogicalVolume> {
    const { name, resourceVersion, finalizers = [] } = volume.metadata;
    if (finalizers.includes(logicalVolume.finalizer)) return volume;
    const body = { metadata: { resourceVersion, finalizers: [...finalizers, logicalVolume.finalizer] } };
    return await this.#client.patch(logicalVolumes, name, { type: 'merge', body }, { signal });
  }

  /** Null removes the annotation. */
  async annotate(
    { metadata }: StoredLogicalVolume,
    annotations: Readonly<Record<string, string | null>>,
    signal: AbortSignal,
  ): Promise<void> {
    const { name, uid } = metadata;
    const body = { metadata: { uid, annotations } };
    await this.#client.patch(logicalVolumes, name, { type: 'merge', body }, { signal });
  }

  async removeFinalizer(volume: StoredLogicalVolume, signal: AbortSignal): Promise<void> {
    const { name, finalizers = [] } = volume.metadata;
    const path = `/metadata/finalizers/${finalizers.indexOf(logicalVolume.finalizer)}`;
    const body = [
      sameObject(volume),
      { op: 'test', path, value: logicalVolume.finalizer },
      { op: 'remove', path },
    ] as const;
    await this.#client.patch(logicalVolumes, name, { type: 'json', body }, { signal });
  }

  async #write(
    { metadata }: StoredLogicalVolume,
    conditions: readonly JsonPatchStep[],
    status: LogicalVolumeStatus,
    signal: AbortSignal,
  ): Promise<void> {
    const body = [...conditions, { op: 'add', path: '/status', value: status }] as const;
    const options = { subresource: 'status', signal } as const;
    await this.#client.patch(logicalVolumes, metadata.name, { type: 'json', body }, options);
  }
}

function sameObject({ metadata }: StoredLogicalVolume): JsonPatchStep {
  return { op: 'test', path: '/metadata/uid', value: metadata.uid };
}

function sameState({ metadata }: StoredLogicalVolume): JsonPatchStep {
  return { op: 'test', path: '/metadata/resourceVersion', value: metadata.resourceVersion };
}
