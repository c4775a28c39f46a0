import { type LogicalVolumeStatus, logicalVolumes, type StoredLogicalVolume } from '../../api/logical-volume.ts';
import { heldByAnnotation, logicalVolume } from '../../api/names.ts';
import type { JsonPatchStep, KubeClient } from '../../kube/client.ts';

/** What a node writes to its LogicalVolumes. Each write fails if another object has taken the name in the meantime. */
export class LogicalVolumeWriter {
  readonly #client: Pick<KubeClient, 'patch'>;

  constructor(client: Pick<KubeClient, 'patch'>) {
    this.#client = client;
  }

  async answer(volume: StoredLogicalVolume, status: LogicalVolumeStatus, signal: AbortSignal): Promise<void> {
    await this.#write(volume, [sameObject(volume)], status, signal);
  }

  /**
   * That the volume could not be made, which lets the controller delete the object. An earlier answer may have arrived
   * although we did not hear so, and the volume be in use: so this fails if the object is not as it was when we looked.
   */
  async refuse(volume: StoredLogicalVolume, failure: LogicalVolumeStatus, signal: AbortSignal): Promise<void> {
    await this.#write(volume, [sameObject(volume), sameState(volume)], failure, signal);
  }

  /** An object that came without the finalizer could vanish, and leave its volume to nobody. Returns it as it is now. */
  async protect(volume: StoredLogicalVolume, signal: AbortSignal): Promise<StoredLogicalVolume> {
    const { name, resourceVersion, finalizers = [] } = volume.metadata;
    if (finalizers.includes(logicalVolume.finalizer)) return volume;
    const body = { metadata: { resourceVersion, finalizers: [...finalizers, logicalVolume.finalizer] } };
    return await this.#client.patch(logicalVolumes, name, { type: 'merge', body }, { signal });
  }

  /** So that after a crash it is known which class must say that the volume is gone. */
  async remember({ metadata }: StoredLogicalVolume, deviceClass: string, signal: AbortSignal): Promise<void> {
    const { name, uid } = metadata;
    const body = { metadata: { uid, annotations: { [heldByAnnotation]: deviceClass } } };
    await this.#client.patch(logicalVolumes, name, { type: 'merge', body }, { signal });
  }

  async letGo(volume: StoredLogicalVolume, signal: AbortSignal): Promise<void> {
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
